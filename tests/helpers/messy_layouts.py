# ruff: noqa: E501  (a layout is a line)
"""Files as people export them: with ids, notes, totals, other suffixes and no names."""

from pathlib import Path

from tests.helpers.layouts import ENTITIES, ROWS, Layout, csv, folder, jsonl, marked
from tests.helpers.own_files import (
    as_csv,
    as_jsonl,
    exam,
    passage,
    second,
    sentence,
    tagged,
    text_file,
)
from tests.helpers.public_layouts import document, triple, webanno, workbook

TEAMS = ("repair", "sales")
QUALTRICS = ["StartDate", "Progress", "Q1", "Q4", "Q4_topic"]
CITIES = ("Bern, Switzerland", "Graz, Austria", "Lund, Sweden", "Turku, Finland")


def team(number: int) -> str:
    return TEAMS[number % 2]


EASTERN = {
    "gb18030": ("GB18030", "第二次来，排版很好，翻译也可以。下次还会再来。"),
    "cp950": ("Big5", "這家餐廳的服務很好，下次還會再來。房間太小。"),
    "shift_jis": ("Shift-JIS", "このホテルはとても良かったです。部屋がきれい"),
    "euc_jp": ("EUC-JP", "このホテルはとても良かったです。部屋がきれい"),
    "euc_kr": ("EUC-KR", "이 영화는 정말 재미있었습니다. 다시 보고 싶어요."),
}
"""Display name and a review for each encoding of East Asian languages."""

SCORED = {
    "input": lambda n: f"{sentence(n)}\t{second(n)}\n",
    "gs": lambda n: "\n" if n in (3, 29) else f"{n % 26 / 5}\n",
}
"""Builders of the line of a pair and of the line of its score."""


def right(number: int) -> str:
    return exam(number)[1][number % 4]


def wrong(number: int) -> list[str]:
    return [option for option in exam(number)[1] if option != right(number)]


def pubtator(number: int) -> str:
    """Return a document with a relation and marked people and places."""
    text, spans = marked(number, triple)
    title, blank, abstract = text.partition(" ")
    assert blank
    marks = [f"{number}\t{a}\t{b}\t{text[a:b]}\t{kind}\tD0\n" for a, b, kind in spans]
    head = f"{number}|t|{title}\n{number}|a|{abstract}\n"
    return f"{head}{''.join(marks)}{number}\tCID\tD0\tD1\n\n"


def places(number: int, text: str) -> list[object]:
    """Return the character spans of a name in the text, if any, and the text."""
    start = text.index("Anna")
    return [[*range(start, start + 10)] if number % 4 else [], text]


def placed(number: int) -> list[object]:
    """Return a question on a review with the place of its answer; every sixth has none."""
    text, asked, answer = passage(number)
    said = answer if number % 6 else "ANSWERNOTFOUND"
    text = f"{text} ANSWERNOTFOUND"
    span = text.index(said), text.index(said) + len(said)
    return [asked, number / 64, text, said, span, number % 2 == 0]


def digits(number: int) -> str:
    """Return a hash of forty hexadecimal digits."""
    return f"{number + 1:08x}" * 5


def report(head: str, foot: str = ""):
    rows = [
        ["case", "summary", "team", "hours"],
        *([f"K{n}", sentence(n), team(n), n] for n in ROWS),
    ]
    return text_file("report.csv", head + as_csv(rows) + foot)


def pieces(place: Path) -> Path:
    """Write brat's files: two have a discontinuous span, and each has an event."""
    made = place / "notes"
    made.mkdir()
    for number in ROWS:
        text, spans = marked(number, triple)
        lines = [f"T{k}\t{tag} {a} {b}\t{text[a:b]}\n" for k, (a, b, tag) in enumerate(spans, 1)]
        cut = ["T9\tPER 0 2;3 5\txx yy\n"] if number < 2 else []
        (made / f"n{number}.txt").write_text(f"{text}\n")
        (made / f"n{number}.ann").write_text("".join([*lines, *cut, "E1\tMove:T1\n"]))
    return made


def lighttag(number: int) -> dict[str, object]:
    def form(start: int, end: int, tag: str) -> dict[str, object]:
        return {"start": start, "end": end, "tag": tag, "correct": True}

    text, spans = marked(number, form)
    wrong = [{"start": 0, "end": 3, "tag": "LOC", "correct": False}] if number % 20 == 0 else []
    return {"content": text, "annotations": [*spans, *wrong]}


def manifest(number: int) -> dict[str, object]:
    about = {"type": "groundtruth/text-classification", "human-annotated": "yes"}
    if number % 10 == 7:
        return {"source": sentence(number), "desk-metadata": {**about, "failure-reason": "expired"}}
    named = {**about, "class-name": team(number), "confidence": 0.5 + number / 200}
    return {"source": sentence(number), "desk": number % 2, "desk-metadata": named}


def manifest_of_several(number: int) -> dict[str, object]:
    found = [0, 1] if number % 3 == 0 else [number % 2]
    about = {
        "type": "groundtruth/text-classification-multilabel",
        "class-map": {str(n): TEAMS[n] for n in found},
    }
    return {"source": sentence(number), "desk": found, "desk-metadata": about}


VIEWED = [
    {
        "row_idx": n,
        "row": {"note": sentence(n), "mood": n % 3 - (n % 3 == 2) * 3},
        "truncated_cells": [],
    }
    for n in ROWS
]
FEATURES = [
    {"feature_idx": 0, "name": "note", "type": {"dtype": "string", "_type": "Value"}},
    {"feature_idx": 1, "name": "mood", "type": {"names": ["calm", "angry"], "_type": "ClassLabel"}},
]
SETS = ("0", "1", "2", "3", "4", "0,1", "0,2", "0,3", "1,2", "1,3", "1,4", "2,3", "2,4", "3,4")

MESSY = {
    # Detection of texts and labels.
    "people and pages beside texts": Layout(csv("orders.csv", "customer,mail,city,page,sent,message,team", lambda n: [f"Maria Musterfrau{n}", f"maria.m{n}@shop.example", CITIES[n % 4] if n % 3 else f"Ort{n}, Land", f"https://shop.example/orders/{n}", f"2023-05-{1 + n % 28:02} 10:{n % 60:02}:00 pm", sentence(n), team(n)]), "class text=message,label=team", TEAMS),
    "dates in words and hashes beside texts": Layout(csv("tweets.csv", "sha,reviewerID,seen,posted,edited,stored,said,team", lambda n: [digits(n), f"A3K{n}QWERTZUIOP", f"Thu May {1 + n % 28:02} 18:01:{n % 60:02} UTC 2023", f"{1 + n % 28}. März 2023 18:{n % 60:02}", f"May {1 + n % 28}, 2023 at 6:{n % 60:02} pm", f"{1 + n % 12:02} {1 + n % 28:02}, 2023", sentence(n), team(n)]), "class text=said,label=team", TEAMS),
    "ids and dates alone": Layout(csv("posts.csv", "post_id,sha,seen,label", lambda n: [f"p-{n}-2023-abcdef", digits(n), f"Thu May {1 + n % 28:02} 18:01:12 +0000 2023", team(n)]), "refuses has no column of texts"),
    "a title of two words and a text": Layout(csv("shop.csv", "product,opinion,label", lambda n: [f"Wanderschuh Modell{n}", sentence(n), team(n)]), "class text=opinion,label=label", TEAMS),
    "links alone": Layout(csv("links.csv", "url,label", lambda n: [f"https://site{n}.example/page?id={n}", team(n)]), "class text=url,label=label", TEAMS),
    "time stamps of Unix": Layout(jsonl("events.jsonl", lambda n: {"text": sentence(n), "seen": 1_684_000_000 + n % 25 * 86_400, "seen_ms": 1_684_000_000_000 + n % 25, "day": 20_230_501 + n % 25, "team": team(n)}), "class text=text,label=team", TEAMS),
    "large numbers that are no time stamps": Layout(csv("sales.csv", "advert,revenue", lambda n: [sentence(n), 1_684_000 + n % 25 * 7]), "number text=advert,number=revenue", said="1.684e+06 to"),
    "one target of a stance": Layout(csv("stance.csv", "target,post,stance", lambda n: ["Wind power", sentence(n), ("AGAINST", "FAVOR", "NONE")[n % 3]]), "class text=post,label=stance", ("AGAINST", "FAVOR", "NONE")),
    "a label of one value": Layout(csv("spam.csv", "message,label,country", lambda n: [sentence(n), "spam", ("CH", "AT")[n % 2]]), "refuses has one label, 'spam' in the column 'label'"),
    "Prodigy, one label with a score": Layout(jsonl("spam.jsonl", lambda n: {"text": sentence(n), "label": "SPAM", "meta": {"score": n / 60}, "answer": ("accept", "reject")[n % 2]}), "class text=text,label=label,verdict=answer", ("SPAM", "not SPAM")),
    "adjudicated labels": Layout(csv("gold.csv", "comment,coder_1,coder_2,adjudicated", lambda n: [sentence(n), team(n), team(n + (n % 9 == 0)), team(n)]), "class text=comment,label=adjudicated", TEAMS),
    "lists of one label, few of them empty": Layout(jsonl("done.jsonl", lambda n: {"text": sentence(n), "label": [] if n % 20 == 3 else [team(n)]}), "class text=text,label=label", TEAMS, said="left out of train, because a text or a usable label is missing: 3"),
    "lists of one label, many of them empty": Layout(jsonl("done.jsonl", lambda n: {"text": sentence(n), "label": [] if n % 4 == 3 else [team(n)]}), "asks text=text,label=label or text=text,labels=label"),
    "labels that are placeholders": Layout(csv("desk.csv", "body,desk", lambda n: [sentence(n), {5: "tbd", 6: "??", 7: "n/a", 8: "Unknown", 9: ""}.get(n, team(n))]), "class text=body,label=desk", TEAMS, "44 train, 11 dev", "values that mean a missing label (rename them if they are classes): 'tbd' (1), '??' (1), 'n/a' (1), 'Unknown' (1)"),
    "unknown as a class": Layout(csv("desk.csv", "body,desk", lambda n: [sentence(n), (*TEAMS, "unknown")[n % 3]]), "class text=body,label=desk", ("repair", "sales", "unknown")),
    "tags in angle brackets": Layout(csv("posts.csv", "Id,Question,Tags", lambda n: [n, sentence(n), ("<gears><chain>", "<chain>", "<brakes><chain><gears>", "<brakes>")[n % 4]]), "labels text=Question,labels=Tags", ("brakes", "chain", "gears")),
    "tags between bars": Layout(csv("posts.csv", "Id,Question,Tags", lambda n: [n, sentence(n), ("|gears|chain|", "|chain|", "|brakes|")[n % 3]]), "labels text=Question,labels=Tags", ("brakes", "chain", "gears")),
    "numbers of labels": Layout(csv("sets.csv", "text,code", lambda n: [sentence(n), SETS[n % len(SETS)]]), "labels text=text,labels=code", ("0", "1", "2", "3", "4")),
    "marks with decimal commas": Layout(csv("marks.csv", "text,mark", lambda n: [sentence(n), ("1", "2", "3", "4", "5", "1,3", "1,7", "2,3", "2,7", "3,3", "3,7", "4,3")[n % 12]]), "asks text=text,labels=mark or text=text,number=mark"),
    "options with a rationale": Layout(jsonl("quiz.jsonl", lambda n: {"question": exam(n)[0], "options": exam(n)[1], "answer": n % 4, "rationale": sentence(n + 700)}), "choice question=question,options=options,answer=answer", said="not used: rationale"),
    # Locations of the rows.
    "JSON lines of another ending": Layout(text_file("rows.dump", as_jsonl([{"text": sentence(n), "label": team(n)} for n in ROWS])), "class text=text,label=label", TEAMS, said="rows.dump is read as JSON, which was detected from its content"),
    "a table without an ending": Layout(text_file("Collection", as_csv([["text", "label"], *([f'"{sentence(n)}', team(n)] for n in ROWS)], "\t", quotechar="\0")), "class text=text,label=label", TEAMS, said="Collection is read as a table"),
    "prose of another ending": Layout(text_file("notes.md", "# Notes\n\nOnce, there was a file.\nIt had no rows.\n"), "refuses notes.md is not in a supported format"),
    "Ground Truth": Layout(text_file("output.manifest", as_jsonl(list(map(manifest, ROWS)))), "class text=source,label=desk", TEAMS, "43 train, 11 dev", "6 rows of output.manifest have no label, because their labelling failed"),
    "Ground Truth, several labels": Layout(text_file("output.manifest", as_jsonl(list(map(manifest_of_several, ROWS)))), "labels text=source,labels=desk", TEAMS),
    "an answer of the hub's viewer": Layout(document("rows.json", {"features": FEATURES, "rows": VIEWED, "num_rows_total": 60}), "class text=note,label=mood", ("angry", "calm"), "32 train, 8 dev"),
    "a download that broke off": Layout(text_file("half.jsonl", as_jsonl([{"text": sentence(n), "label": team(n)} for n in ROWS]) + '{"text": "so it en'), "class text=text,label=label", TEAMS, said="half.jsonl is cut off within line 61"),
    "a broken last line": Layout(text_file("broken.jsonl", as_jsonl([{"text": sentence(n), "label": team(n)} for n in ROWS]) + '{"text": "b" "label": 0}'), "refuses broken.jsonl line 61 column 14"),
    "comments above a table": Layout(report("# Desk 3.1, a report\n# printed: today, by Kim; page 1\n\n"), "class text=summary,label=team", TEAMS, said="lines at the top of report.csv that begin with # are read as comments: 2"),
    "a total below a table": Layout(report("", "Grand total:,,,1770\n"), "class text=summary,label=team", TEAMS, said="left out of report.csv: line 62, a row of totals"),
    "a hash before the first name": Layout(text_file("gene.csv", "#" + as_csv([["id", "text", "label"], *([n, sentence(n), team(n)] for n in ROWS)])), "class text=text,label=label", TEAMS, "48 train, 12 dev"),
    "labels of the test in a file of their own": Layout(folder(train__csv=as_csv([["id", "body", "rude", "late"], *([f"r{n}", sentence(n), n % 2, n % 3 // 2] for n in ROWS)]), test__csv=as_csv([["id", "body"], *([f"t{n}", sentence(n + 500)] for n in range(20))]), test_labels__csv=as_csv([["id", "rude", "late"], *([f"t{n}", *([n % 2, 0] if n % 4 else [-1, -1])] for n in reversed(range(20)))]), sample_submission__csv="id,rude,late\nt0,0.5,0.5\n"), "labels text=body,labels=rude+late", ("late", "rude")[::-1], "20 test", "the labels for test.csv are read from test_labels.csv; rows are matched by the column 'id'"),
    "labels of each split in a file of their own": Layout(folder(**{f"{split}__csv": as_csv([["no", "body"], *([n, sentence(n + start)] for n in range(count))]) for split, count, start in (("train", 60, 0), ("test", 20, 500))}, **{f"{split}__csv": as_csv([["no", "team"], *([n, team(n)] for n in range(count))]) for split, count in (("train-labels", 60), ("labels_test", 20))}), "class text=body,label=team", TEAMS, "48 train, 12 dev, 20 test"),
    "labels that name no row": Layout(folder(train__csv=as_csv([["id", "body", "label"], *([n, sentence(n), team(n)] for n in ROWS)]), test__csv=as_csv([["id", "body"], [1, sentence(900)], [2, sentence(901)]]), test_labels__csv="label\nsales\nrepair\n"), "refuses the labels in test_labels.csv cannot be matched"),
    "a code book beside the rows": Layout(workbook(About=[["Survey", "May 2023"], ["Coder", "K. Lund"], ["Note", "none"]], Answers=[["no", "answer", "code"], *([n, sentence(n), team(n)] for n in ROWS)], Codes=[["code", "meaning"], ["sales", "wants to buy"], ["repair", "something broke"]]), "class text=answer,label=code", TEAMS, said="the sheet 'Answers' is read; ignored: 'About', 'Codes'"),
    "WebAnno, two features of a layer": Layout(text_file("doc.tsv", "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.Name|identifier|value\n\n\n" + "\n".join(webanno(n).replace("\t_\tPER[1]", "\thttp://x/1[1]\tPER[1]").replace("\t_\tLOC", "\t*\tLOC") for n in ROWS)), "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "brat, spans in pieces": Layout(pieces, "tags words=words,tags=tags", ENTITIES, said="left out of notes: 60 relations and events, 2 spans in several pieces"),
    "spans that were rejected": Layout(document("spans.json", {"examples": list(map(lighttag, ROWS))}), "tags words=words,tags=tags", ENTITIES, said="left out of spans.json: 3 spans that were rejected"),
    "Mechanical Turk": Layout(csv("Batch_7.csv", "HITId,CreationTime,WorkerId,AssignmentStatus,RejectionTime,Input.text,Answer.team.label,Approve,Reject", lambda n: [f"3{n:04}XYZABCDEFG", f"Tue Mar 07 10:{n % 60:02}:35 PST 2023", f"A{n % 4}", "Rejected" if n % 10 == 3 else "Approved", f"Tue Mar 08 11:{n % 60:02}:35 PST 2023" if n % 10 == 3 else "", sentence(n), team(n), "" if n % 10 == 3 else "x", "x" if n % 10 == 3 else ""]), "class text=Input.text,label=Answer.team.label,verdict=AssignmentStatus", TEAMS, said="left out of Batch_7.csv: 6 rejected (column AssignmentStatus)"),
    # Tables whose first line is a row.
    "no names and short texts": Layout(text_file("short.csv", as_csv([["so good" if n % 2 else f"quite bad {n}", team(n)] for n in ROWS])), "refuses line 1 of short.csv is a row instead of column names"),
    "a name that is a value too": Layout(csv("comments.csv", "comment,toxic", lambda n: [sentence(n), ("toxic", "clean")[n % 2]]), "refuses --no-header"),
    "whole questions as names": Layout(csv("form.csv", "Tell us in your own words how the visit was for you today,Which of our desks did you talk to", lambda n: [sentence(n), team(n)]), "refuses --no-header"),
    "no names and two readings": Layout(csv("two.csv", "", lambda n: [sentence(n), second(n), team(n)]), "refuses line 1 of two.csv is a row instead of column names"),
    "no names and options": Layout(csv("quiz.csv", "", lambda n: [exam(n)[0], *exam(n)[1], "ABCD"[n % 4]]), "choice question=1,options=2+3+4+5,answer=6", said="line 1 of quiz.csv is a row instead of column names: it is read as with --no-header"),
    # Column names, and other lines or columns around the table.
    "a title, a date and an empty line": Layout(workbook(Register=[["Complaints 2024", "", "", "", ""], ["printed", "1.2.2024", "", "", ""], ["", "", "", "", ""], ["No.", "What happened?", "Complaint category", "Days open", "By"], *([n + 1, sentence(n), team(n), n, "us"] for n in ROWS)]), "class text=What happened?,label=Complaint category", TEAMS, said="lines 1 to 2 of book.xlsx are a title"),
    "titles in a CSV": Layout(text_file("report.csv", "Report,,,\nof 2024,,,\n" + as_csv([["id", "text", "team", "note"], *([n, sentence(n), team(n), ""] for n in ROWS)])), "class text=text,label=team", TEAMS, said="lines 1 to 2 of report.csv are a title"),
    "Qualtrics": Layout(text_file("survey.csv", as_csv([QUALTRICS, ["Start Date", "Progress", "Where do you live?", "What should we do better?", "Topic"], [f'{{"ImportId":"QID{n}"}}' for n in range(5)], *(["2024-03-14 09:41", 100, ["Bern", "Graz"][n % 3 == 0], sentence(n), team(n)] for n in ROWS)]), "utf-8-sig"), "class text=Q4,label=Q4_topic", TEAMS, "48 train, 12 dev", said="describe its columns (Qualtrics)"),
    "SurveyMonkey": Layout(text_file("survey.csv", as_csv([["Respondent ID", "What happened?", "Which parts failed?", "", ""], ["", "Open-Ended Response", "Delivery", "Price", "Service"], *([n, sentence(n), *(name if n * (k + 1) % 4 == 0 else "" for k, name in enumerate(("Delivery", "Price", "Service")))] for n in ROWS)])), "labels text=What happened?,labels=Delivery+Price+Service", ("Delivery", "Price", "Service"), said="lines 1 to 2 of survey.csv name its columns"),
    "ticks": Layout(csv("boxes.csv", "text,spam,abuse", lambda n: [sentence(n), "x" if n % 3 else "", "x" if n % 2 else ""]), "labels text=text,labels=spam+abuse", ("spam", "abuse")),
    "a row above that is no second line of names": Layout(text_file("odd.csv", as_csv([["text", "label", "", ""], *([sentence(n), team(n), 1 + n % 3, "a b"] for n in ROWS)])), "class text=text,label=label", TEAMS),
    "where rows come from": Layout(csv("desk.csv", "headline,newspaper,agency,desk", lambda n: [sentence(n), ["Sun", "Post"][n % 3 == 0], ["dpa", "afp"][n % 5 == 0], team(n)]), "class text=headline,label=desk", TEAMS),
    "a confidence": Layout(csv("tweets.csv", "tweet_id,airline_sentiment,airline_sentiment_confidence,text,user_timezone", lambda n: [n, team(n), round(0.5 + n / 130, 3), sentence(n), ["Eastern Time (US & Canada)", "Bern Time (Swiss Alps)", ""][n % 3]]), "class text=text,label=airline_sentiment", TEAMS),
    "fields two deep": Layout(document("hits.json", {"took": 3, "hits": {"total": 60, "hits": [{"_id": str(n), "_source": {"ticket": {"body": sentence(n)}, "annotation": {"category": team(n), "annotator": ["ann", "bob"][n % 3 == 0], "confidence": n / 100}, "meta": {"country": ["ch", "at"][n % 5 == 0]}}} for n in ROWS]}}), "class text=_source.ticket.body,label=_source.annotation.category", TEAMS),
    "nothing but where rows come from": Layout(csv("open.csv", "answer_text,country,gender,age", lambda n: [sentence(n), ["ch", "at"][n % 3 == 0], ["f", "m"][n % 2], 20 + n]), "asks text=answer_text,label=country or text=answer_text,label=gender"),
    "grades of which some are missing": Layout(csv("respuestas.csv", "Apellido(s),Tiempo requerido,Respuesta 1,Calificación/10", lambda n: [f"P{n}", f"{n % 9 + 1} minutos {n % 50 + 1} segundos", sentence(n), "-" if n % 10 == 3 else f"{n % 10},{n % 4 * 25:02}"], ";"), "number text=Respuesta 1,number=Calificación/10"),
    "a language or a domain": Layout(csv("both.csv", "text,lang,domain", lambda n: [sentence(n), ["en", "de"][n % 3 == 0], team(n)]), "asks text=text,label=lang or text=text,label=domain"),
    "a label and a length": Layout(csv("lengths.csv", "text,label,text_length,text_code", lambda n: [sentence(n), team(n), 3 * n, ["a", "b"][n % 3 == 0]]), "class text=text,label=label", TEAMS),
    "a mood and a source": Layout(csv("sources.csv", "review,sentiment,review_source", lambda n: [sentence(n), team(n), ["web", "app"][n % 3 == 0]]), "class text=review,label=sentiment", TEAMS),
    "a table for a class": Layout(folder(pos__csv="id,text,rating\n" + "".join(f"{n},{sentence(n)},4\n" for n in range(30)), neg__csv="id,text,rating\n" + "".join(f"{n},{sentence(n)},1\n" for n in range(30))), "class text=text,label=label", ("neg", "pos"), "48 train, 12 dev"),
    "a language to tell": Layout(csv("languages.csv", "text,language", lambda n: [sentence(n), team(n)]), "class text=text,label=language", TEAMS),
    "a title and an abstract": Layout(csv("papers.csv", "ID,TITLE,ABSTRACT,Physics,Biology", lambda n: [n, sentence(n, length=5), sentence(n + 500), n % 2, int(n % 3 == 0)]), "labels text=TITLE,text2=ABSTRACT,labels=Physics+Biology", ("Physics", "Biology")),
    "replies to some": Layout(csv("play.csv", "content,mood,replyContent", lambda n: [sentence(n), team(n), sentence(n + 700) if n % 5 == 0 else ""]), "class text=content,label=mood", TEAMS),
    "endings and a source": Layout(csv("train.csv", "video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label", lambda n: [f"v{n}", n, f"{sentence(n)} He", sentence(n), "He", ["gold", "gen"][n % 3 == 0], *(sentence(n + 900 + k, length=4) for k in range(4)), n % 4]), "choice question=startphrase,options=ending0+ending1+ending2+ending3,answer=label"),
    "options below two texts": Layout(csv("which.csv", "premise_part,other_part,ending0,ending1,ending2,label", lambda n: [sentence(n), second(n), *(sentence(n + 900 + k, length=4) for k in range(3)), n % 3]), "asks question=premise_part,options=ending0+ending1+ending2,answer=label or question=other_part"),
    "a reading sheet": Layout(text_file("reading.csv", as_csv([["Passage ID", "Passage", "Question", "Correct answer", "Level"], *([n // 3, (p := passage(n))[0], p[1], "nowhere at all" if n % 20 == 0 else p[2], ["easy", "hard"][n % 2]] for n in ROWS)], ";"), "cp1252"), "spans context=Passage,question=Question,answer=Correct answer", said="a usable label is missing: 3"),
    "answers that stand nowhere": Layout(csv("reading.csv", "passage,question,answer,level", lambda n: [(p := passage(n))[0], p[1], f"word {n}", ["easy", "hard"][n % 2]]), "refuses fit neither a span of a context nor a choice"),
    "a file of lines for a class": Layout(folder(rt_polarity__pos="".join(f"{sentence(n)}\n" for n in range(30)), rt_polarity__neg="".join(f"{sentence(n + 50)}\n" for n in range(30)), readme__txt="From a paper.\n"), "class text=text,label=label", ("neg", "pos"), "48 train, 12 dev"),
    "texts in two languages": Layout(folder(all__en="".join(f"{sentence(n)}\n" for n in range(30)), all__de="".join(f"{sentence(n + 50)}\n" for n in range(30))), "refuses has no train file"),
    "a label at the end of a line": Layout(text_file("Sentences_75Agree.txt", "".join(f"{sentence(n)} by a@b.c .@{team(n)}\n" for n in ROWS), "cp1252"), "class text=text,label=label", TEAMS),
    "addresses at the end of a line": Layout(text_file("mail.txt", "".join(f"{sentence(n)} @user{n}\n" for n in ROWS)), "refuses mail.txt"),
    "a title and a body by one name": Layout(csv("issues.csv", "issue_url,issue_title,issue_body,issue_label", lambda n: [f"https://x.org/{n}", sentence(n, length=5), sentence(n + 500), team(n)]), "class text=issue_title,text2=issue_body,label=issue_label", TEAMS),
    "phrases": Layout(csv("train.csv", "id,anchor,target,context,score", lambda n: [digits(n)[:12], f"part {n % 7}", f"piece {n}", ["A47", "B21"][n % 2], n % 5 / 4]), "number text=anchor,text2=target,number=score", said="0 to 1"),
    "boxes and a shop": Layout(csv("verbatims.csv", "Date,Magasin,Verbatim,Prix,Accueil,Attente,Nb", lambda n: ["3 mai 2024", ["Lyon", "Metz"][n % 2], sentence(n), *("X" if n % k == 0 else "" for k in (2, 3, 4)), n % 4]), "labels text=Verbatim,labels=Prix+Accueil+Attente", ("Prix", "Accueil", "Attente")),
    "a label and what a model said": Layout(csv("feedback.csv", "id,comment,label,sentiment,score", lambda n: [n, sentence(n), team(n), team(n // 2), n / 60]), "asks text=comment,label=label or text=comment,label=sentiment"),
    "a German survey": Layout(csv("results.csv", "Antwort ID,Was ist zu tun?,In welchem Bereich?,Kategorie,Bemerkung", lambda n: [n, sentence(n), ["Bau", "Amt"][n % 2], team(n // 3), ""], ";"), "class text=Was ist zu tun?,label=Kategorie", TEAMS),
    # Tables without column names, with a class and its texts.
    "no names and classes in a file": Layout(folder(train__csv=as_csv([[1 + n % 5, sentence(n, length=5), sentence(n + 500)] for n in ROWS]), classes__txt="art\nbooks\nchess\ndance\negg\n"), "class text=2,text2=3,label=1", ("art", "books", "chess", "dance", "egg"), "48 train, 12 dev", "the names of the classes in column 1 of train.csv are the lines of classes.txt"),
    "no names and too few classes in a file": Layout(folder(train__csv=as_csv([[1 + n % 5, sentence(n, length=5), sentence(n + 500)] for n in ROWS]), classes__txt="art\nbooks\n"), "refuses line 1 of train.csv is a row instead of column names"),
    "no names and grades": Layout(csv("grades.csv", "", lambda n: [1 + n % 5, sentence(n, length=5), sentence(n + 500)]), "refuses line 1 of grades.csv is a row instead of column names"),
    "no names and a part of the text": Layout(csv("part.csv", "", lambda n: [1 + n % 4, sentence(n)[:30], sentence(n)]), "refuses line 1 of part.csv is a row instead of column names"),
    "a title and a plot": Layout(csv("films.csv", "title,plot_synopsis,tags,split,source", lambda n: [sentence(n, length=4), sentence(n + 500), ["crime, drama", "drama", "crime"][n % 3], ["train", "train", "val", "test"][n % 4], ["imdb", "wiki"][n % 2]]), "labels text=title,text2=plot_synopsis,labels=tags,split=split", ("crime", "drama")),
    "a title and a reason": Layout(csv("films.csv", "title,rationale,label", lambda n: [sentence(n, length=4), sentence(n + 500), team(n)]), "asks text=title,label=label or text=title,text2=rationale,label=label"),
    # East Asian encodings.
    **{code: Layout(text_file("reviews.csv", as_csv([["text", "label"], *([f"{text} {sentence(n)}", team(n)] for n in ROWS)]), code), "class text=text,label=label", TEAMS, said=f"reviews.csv is read as {said}, because it is not UTF-8") for code, (said, text) in EASTERN.items()},
    "a broken letter in GB18030": Layout(text_file("reviews.csv", as_csv([["text", "label"], *([EASTERN["gb18030"][1], team(n)] for n in ROWS)]).encode("gb18030") + b"\xff,sales\n"), "refuses is not UTF-8, and its encoding cannot be detected"),
    "seldom letters in GB18030": Layout(text_file("reviews.csv", as_csv([["text", "label"], *(["\u9f98\u9749\u7228\u9e1f\u9f8d" * 3, team(n)] for n in ROWS)]), "gb18030"), "refuses is not UTF-8, and its encoding cannot be detected"),
    # Right and wrong answers in separate columns.
    "distractors": Layout(csv("train.csv", "question,distractor1,distractor2,distractor3,correct_answer,support", lambda n: [exam(n)[0], *wrong(n), right(n), sentence(n + 300)]), "choice context=support,question=question,options=distractor1+distractor2+distractor3+correct_answer,answer=correct_answer", said="options are sorted by their text"),
    "a list of wrong answers": Layout(jsonl("quiz.jsonl", lambda n: {"category": team(n), "question": exam(n)[0], "correct_answer": right(n), "incorrect_answers": wrong(n)}), "choice question=question,options=incorrect_answers+correct_answer,answer=correct_answer"),
    "distractors and a letter": Layout(csv("train.csv", "question,distractor1,distractor2,distractor3,correct_answer", lambda n: [exam(n)[0], *wrong(n), "ABCD"[n % 4]]), "asks text=question,label=correct_answer or text=distractor1,label=correct_answer"),
    "distractors with the answer among them": Layout(csv("train.csv", "question,distractor1,distractor2,distractor3,correct_answer,level", lambda n: [exam(n)[0], *wrong(n), wrong(n)[n % 3], team(n)]), "asks text=question,label=level or text=distractor1,label=level"),
    "a quiz in a workbook": Layout(workbook(Quiz=[[None] * 6, [None, "Quiz template", *[None] * 4], [None, None, "Question - max 120 characters", "Answer 1 - max 75 characters", "Answer 2 - max 75 characters", "Correct answer(s) - choose at least one"], *([None, n + 1, exam(n)[0], *exam(n)[1][:2], "1,2" if n % 20 == 0 else 1 + n % 2] for n in ROWS), *([None, n, *[None] * 4] for n in range(61, 70))]), "choice question=Question - max 120 characters,options=Answer 1 - max 75 characters+Answer 2 - max 75 characters,answer=Correct answer(s) - choose at least one", (), "46 train, 11 dev", "questions with several right options, which are read as unlabelled: 3"),
    "a quiz whose numbers may count from 0": Layout(csv("quiz.csv", "Question,Answer 1,Answer 2,Answer 3,Answer 4,Correct answer", lambda n: [exam(n)[0], *exam(n)[1], 1 + n % 3]), "asks text=Question,label=Correct answer or text=Answer 1,label=Correct answer"),
    "a quiz with fewer options in some rows": Layout(csv("quiz.csv", "Question Text,Question Type,Option 1,Option 2,Option 3,Correct Answer", lambda n: [exam(n)[0], "Multiple Choice", *exam(n)[1][:2], "" if n % 3 else exam(n)[1][2], 1 + n % 2]), "choice question=Question Text,options=Option 1+Option 2+Option 3,answer=Correct Answer", said="count the options from 1"),
    "a quiz with mostly several right answers": Layout(csv("quiz.csv", "Question,Answer 1,Answer 2,Answer 3,Correct", lambda n: [exam(n)[0], *wrong(n), "1;3" if n % 2 else 1 + n % 3]), "asks text=Question,labels=Correct or text=Answer 1,labels=Correct"),
    # Spans in texts and in questions.
    "PubTator": Layout(text_file("corpus.PubTator", "".join(map(pubtator, ROWS))), "tags words=words,tags=tags", ENTITIES, said="left out of corpus.PubTator: 60 relations"),
    "PubTator, a mark of other words": Layout(text_file("corpus.txt", "".join(map(pubtator, ROWS)).replace("\tAnna Meyer\t", "\tAnna Weyer\t", 1)), "refuses corpus.txt line 3 gives 'Anna Weyer' as the text of characters 6 to 16, but the text there is 'Anna Meyer'"),
    "PubTator, an odd line": Layout(text_file("corpus.txt", pubtator(1) + "1\tso\n"), "refuses corpus.txt line 7 is not in PubTator's format"),
    "places of letters": Layout(csv("spans.csv", "spans,text", lambda n: places(n, marked(n, triple)[0])), "tags words=words,tags=tags", ("O", "B-SPAN", "I-SPAN"), said="the numbers in 'spans' are character positions"),
    "numbers of words": Layout(csv("spans.csv", "spans,text", lambda n: [[1, 2] if n % 4 else [], marked(n, triple)[0]]), "refuses no column of spans.csv can be a label"),
    "tags behind words": Layout(text_file("tagged.txt", "".join(f"{' '.join(map('_'.join, zip(*tagged(n), strict=True)))} 1/2_O\n" for n in ROWS)), "tags words=words,tags=tags", ENTITIES),
    "parts of speech behind words": Layout(text_file("brown.pos", "".join(f"{' '.join(f'{w}/np-tl' if w.istitle() else f'{w}/nn' for w in tagged(n)[0])} ./.\n" for n in ROWS)), "tags words=words,tags=tags", (".", "nn", "np-tl"), said="brown.pos is read as words followed by their tags"),
    "a word without its tag behind": Layout(text_file("tagged.txt", "".join(f"{' '.join(map('_'.join, zip(*tagged(n), strict=True)))}{' bare' * (n == 8)}\n" for n in ROWS)), "refuses tagged.txt line 9 has no tag after 'bare'"),
    "names with a line between": Layout(text_file("names.txt", "".join(f"{' '.join(f'{w}_id' for w in tagged(n)[0])}\n" for n in ROWS)), "refuses no column of names.txt can be a label"),
    "answers and their places": Layout(csv("reviews.csv", "question,ques_score,review,human_ans_spans,human_ans_indices,is_ans_subjective", placed), "spans context=review,question=question,answer=human_ans_spans,start=human_ans_indices", said="10 questions have the answer ANSWERNOTFOUND, which is read as no answer"),
    "answers and other numbers": Layout(csv("reviews.csv", "question,review,reply,at", lambda n: [passage(n)[1], passage(n)[0], passage(n)[2], f"({n % 7}, {n % 7 + 9})"]), "refuses no column of reviews.csv can be a label"),
    # Pairs of texts, with their scores in separate files.
    "scores by lines": Layout(folder(**{f"STS__{kind}__{part}__txt": "".join(line(n + at) for n in range(30)) for at, part in ((0, "news"), (30, "forum")) for kind, line in SCORED.items()}), "number text=sentence1,text2=sentence2,number=score", (), "46 train, 12 dev", "the .gs. files, line by line"),
    "scores of fewer lines": Layout(folder(STS__input__news__txt="".join(map(SCORED["input"], ROWS)), STS__gs__news__txt="".join(map(SCORED["gs"], range(59)))), "refuses STS.input.news.txt has 60 lines, but STS.gs.news.txt has 59"),
    "pairs without scores": Layout(folder(STS__input__news__txt="".join(map(SCORED["input"], ROWS)), STS__input__forum__txt="".join(map(SCORED["input"], ROWS))), "refuses has no train file"),
}  # fmt: skip
