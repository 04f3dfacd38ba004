# ruff: noqa: E501  (a layout is a line)
"""Files as people export and keep them: with ids, notes, totals, other endings and no names."""

from pathlib import Path

from tests.helpers.layouts import ENTITIES, ROWS, Layout, csv, folder, jsonl, marked
from tests.helpers.own_files import as_csv, as_jsonl, exam, passage, second, sentence, text_file
from tests.helpers.public_layouts import document, triple, webanno, workbook

TEAMS = ("repair", "sales")
QUALTRICS = ["StartDate", "Progress", "Q1", "Q4", "Q4_topic"]
CITIES = ("Bern, Switzerland", "Graz, Austria", "Lund, Sweden", "Turku, Finland")


def team(number: int) -> str:
    return TEAMS[number % 2]


def digits(number: int) -> str:
    """A hash of forty hexadecimal digits."""
    return f"{number + 1:08x}" * 5


def report(head: str, foot: str = ""):
    rows = [
        ["case", "summary", "team", "hours"],
        *([f"K{n}", sentence(n), team(n), n] for n in ROWS),
    ]
    return text_file("report.csv", head + as_csv(rows) + foot)


def pieces(place: Path) -> Path:
    """Write brat's files, of which two have a span in two pieces and each has an event."""
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
    # Which columns are texts, and which are labels.
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
    "lists of one label, few of them empty": Layout(jsonl("done.jsonl", lambda n: {"text": sentence(n), "label": [] if n % 20 == 3 else [team(n)]}), "class text=text,label=label", TEAMS, said="left out of train, without a text or a label: 3"),
    "lists of one label, many of them empty": Layout(jsonl("done.jsonl", lambda n: {"text": sentence(n), "label": [] if n % 4 == 3 else [team(n)]}), "asks text=text,label=label or text=text,labels=label"),
    "labels that are placeholders": Layout(csv("desk.csv", "body,desk", lambda n: [sentence(n), {5: "tbd", 6: "??", 7: "n/a", 8: "Unknown", 9: ""}.get(n, team(n))]), "class text=body,label=desk", TEAMS, "44 train, 11 dev", "read as no label, rename what is a class: 'tbd' (1), '??' (1), 'n/a' (1), 'Unknown' (1)"),
    "unknown as a class": Layout(csv("desk.csv", "body,desk", lambda n: [sentence(n), (*TEAMS, "unknown")[n % 3]]), "class text=body,label=desk", ("repair", "sales", "unknown")),
    "tags in angle brackets": Layout(csv("posts.csv", "Id,Question,Tags", lambda n: [n, sentence(n), ("<gears><chain>", "<chain>", "<brakes><chain><gears>", "<brakes>")[n % 4]]), "labels text=Question,labels=Tags", ("brakes", "chain", "gears")),
    "tags between bars": Layout(csv("posts.csv", "Id,Question,Tags", lambda n: [n, sentence(n), ("|gears|chain|", "|chain|", "|brakes|")[n % 3]]), "labels text=Question,labels=Tags", ("brakes", "chain", "gears")),
    "numbers of labels": Layout(csv("sets.csv", "text,code", lambda n: [sentence(n), SETS[n % len(SETS)]]), "labels text=text,labels=code", ("0", "1", "2", "3", "4")),
    "marks with decimal commas": Layout(csv("marks.csv", "text,mark", lambda n: [sentence(n), ("1", "2", "3", "4", "5", "1,3", "1,7", "2,3", "2,7", "3,3", "3,7", "4,3")[n % 12]]), "asks text=text,labels=mark or text=text,number=mark"),
    "options with a rationale": Layout(jsonl("quiz.jsonl", lambda n: {"question": exam(n)[0], "options": exam(n)[1], "answer": n % 4, "rationale": sentence(n + 700)}), "choice question=question,options=options,answer=answer", said="not used: rationale"),
    # Where the rows are.
    "JSON lines of another ending": Layout(text_file("rows.dump", as_jsonl([{"text": sentence(n), "label": team(n)} for n in ROWS])), "class text=text,label=label", TEAMS, said="rows.dump is read as JSON, for its ending says nothing of it"),
    "a table without an ending": Layout(text_file("Collection", as_csv([["text", "label"], *([f'"{sentence(n)}', team(n)] for n in ROWS)], "\t", quotechar="\0")), "class text=text,label=label", TEAMS, said="Collection is read as a table"),
    "prose of another ending": Layout(text_file("notes.md", "# Notes\n\nOnce, there was a file.\nIt had no rows.\n"), "refuses notes.md has an ending that no reader knows"),
    "Ground Truth": Layout(text_file("output.manifest", as_jsonl(list(map(manifest, ROWS)))), "class text=source,label=desk", TEAMS, "43 train, 11 dev", "6 rows of output.manifest have no label, for their labelling failed"),
    "Ground Truth, several labels": Layout(text_file("output.manifest", as_jsonl(list(map(manifest_of_several, ROWS)))), "labels text=source,labels=desk", TEAMS),
    "an answer of the hub's viewer": Layout(document("rows.json", {"features": FEATURES, "rows": VIEWED, "num_rows_total": 60}), "class text=note,label=mood", ("angry", "calm"), "32 train, 8 dev"),
    "a download that broke off": Layout(text_file("half.jsonl", as_jsonl([{"text": sentence(n), "label": team(n)} for n in ROWS]) + '{"text": "so it en'), "class text=text,label=label", TEAMS, said="half.jsonl ends within line 61, which is left out"),
    "a broken last line": Layout(text_file("broken.jsonl", as_jsonl([{"text": sentence(n), "label": team(n)} for n in ROWS]) + '{"text": "b" "label": 0}'), "refuses broken.jsonl line 61 column 14"),
    "comments above a table": Layout(report("# Desk 3.1, a report\n# printed: today, by Kim; page 1\n\n"), "class text=summary,label=team", TEAMS, said="lines at the top of report.csv that begin with # are read as comments: 2"),
    "a total below a table": Layout(report("", "Grand total:,,,1770\n"), "class text=summary,label=team", TEAMS, said="left out of report.csv: line 62, which is a total"),
    "a hash before the first name": Layout(text_file("gene.csv", "#" + as_csv([["id", "text", "label"], *([n, sentence(n), team(n)] for n in ROWS)])), "class text=text,label=label", TEAMS, "48 train, 12 dev"),
    "labels of the test in a file of their own": Layout(folder(train__csv=as_csv([["id", "body", "rude", "late"], *([f"r{n}", sentence(n), n % 2, n % 3 // 2] for n in ROWS)]), test__csv=as_csv([["id", "body"], *([f"t{n}", sentence(n + 500)] for n in range(20))]), test_labels__csv=as_csv([["id", "rude", "late"], *([f"t{n}", *([n % 2, 0] if n % 4 else [-1, -1])] for n in reversed(range(20)))]), sample_submission__csv="id,rude,late\nt0,0.5,0.5\n"), "labels text=body,labels=rude+late", ("late", "rude")[::-1], "20 test", "the labels of test.csv are those of test_labels.csv, by 'id'"),
    "labels of each split in a file of their own": Layout(folder(**{f"{split}__csv": as_csv([["no", "body"], *([n, sentence(n + start)] for n in range(count))]) for split, count, start in (("train", 60, 0), ("test", 20, 500))}, **{f"{split}__csv": as_csv([["no", "team"], *([n, team(n)] for n in range(count))]) for split, count in (("train-labels", 60), ("labels_test", 20))}), "class text=body,label=team", TEAMS, "48 train, 12 dev, 20 test"),
    "labels that name no row": Layout(folder(train__csv=as_csv([["id", "body", "label"], *([n, sentence(n), team(n)] for n in ROWS)]), test__csv=as_csv([["id", "body"], [1, sentence(900)], [2, sentence(901)]]), test_labels__csv="label\nsales\nrepair\n"), "refuses test_labels.csv has no one column"),
    "a code book beside the rows": Layout(workbook(About=[["Survey", "May 2023"], ["Coder", "K. Lund"], ["Note", "none"]], Answers=[["no", "answer", "code"], *([n, sentence(n), team(n)] for n in ROWS)], Codes=[["code", "meaning"], ["sales", "wants to buy"], ["repair", "something broke"]]), "class text=answer,label=code", TEAMS, said="the sheet 'Answers' is read, and not 'About', 'Codes'"),
    "WebAnno, two features of a layer": Layout(text_file("doc.tsv", "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.Name|identifier|value\n\n\n" + "\n".join(webanno(n).replace("\t_\tPER[1]", "\thttp://x/1[1]\tPER[1]").replace("\t_\tLOC", "\t*\tLOC") for n in ROWS)), "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "brat, spans in pieces": Layout(pieces, "tags words=words,tags=tags", ENTITIES, said="left out of notes: 60 relations and events, 2 spans in several pieces"),
    "spans that were rejected": Layout(document("spans.json", {"examples": list(map(lighttag, ROWS))}), "tags words=words,tags=tags", ENTITIES, said="left out of spans.json: 3 spans that were rejected"),
    "Mechanical Turk": Layout(csv("Batch_7.csv", "HITId,CreationTime,WorkerId,AssignmentStatus,RejectionTime,Input.text,Answer.team.label,Approve,Reject", lambda n: [f"3{n:04}XYZABCDEFG", f"Tue Mar 07 10:{n % 60:02}:35 PST 2023", f"A{n % 4}", "Rejected" if n % 10 == 3 else "Approved", f"Tue Mar 08 11:{n % 60:02}:35 PST 2023" if n % 10 == 3 else "", sentence(n), team(n), "" if n % 10 == 3 else "x", "x" if n % 10 == 3 else ""]), "class text=Input.text,label=Answer.team.label,verdict=AssignmentStatus", TEAMS, said="left out of Batch_7.csv: 6 rejected (AssignmentStatus)"),
    # Line 1 is a row.
    "no names and short texts": Layout(text_file("short.csv", as_csv([["so good" if n % 2 else f"quite bad {n}", team(n)] for n in ROWS])), "refuses line 1 of short.csv is a row and no names"),
    "a name that is a value too": Layout(csv("comments.csv", "comment,toxic", lambda n: [sentence(n), ("toxic", "clean")[n % 2]]), "refuses --no-header"),
    "whole questions as names": Layout(csv("form.csv", "Tell us in your own words how the visit was for you today,Which of our desks did you talk to", lambda n: [sentence(n), team(n)]), "refuses --no-header"),
    "no names and two readings": Layout(csv("two.csv", "", lambda n: [sentence(n), second(n), team(n)]), "refuses line 1 of two.csv is a row and no names"),
    "no names and options": Layout(csv("quiz.csv", "", lambda n: [exam(n)[0], *exam(n)[1], "ABCD"[n % 4]]), "choice question=1,options=2+3+4+5,answer=6", said="line 1 of quiz.csv is a row and no names: read as with --no-header"),
    # Names of columns, and what stands above and next to them.
    "a title, a date and an empty line": Layout(workbook(Register=[["Complaints 2024", "", "", "", ""], ["printed", "1.2.2024", "", "", ""], ["", "", "", "", ""], ["No.", "What happened?", "Complaint category", "Days open", "By"], *([n + 1, sentence(n), team(n), n, "us"] for n in ROWS)]), "class text=What happened?,label=Complaint category", TEAMS, said="lines 1 to 2 of book.xlsx are a title"),
    "titles in a CSV": Layout(text_file("report.csv", "Report,,,\nof 2024,,,\n" + as_csv([["id", "text", "team", "note"], *([n, sentence(n), team(n), ""] for n in ROWS)])), "class text=text,label=team", TEAMS, said="lines 1 to 2 of report.csv are a title"),
    "Qualtrics": Layout(text_file("survey.csv", as_csv([QUALTRICS, ["Start Date", "Progress", "Where do you live?", "What should we do better?", "Topic"], [f'{{"ImportId":"QID{n}"}}' for n in range(5)], *(["2024-03-14 09:41", 100, ["Bern", "Graz"][n % 3 == 0], sentence(n), team(n)] for n in ROWS)]), "utf-8-sig"), "class text=Q4,label=Q4_topic", TEAMS, "48 train, 12 dev", said="describe its columns (Qualtrics)"),
    "SurveyMonkey": Layout(text_file("survey.csv", as_csv([["Respondent ID", "What happened?", "Which parts failed?", "", ""], ["", "Open-Ended Response", "Delivery", "Price", "Service"], *([n, sentence(n), *(name if n * (k + 1) % 4 == 0 else "" for k, name in enumerate(("Delivery", "Price", "Service")))] for n in ROWS)])), "labels text=What happened?,labels=Delivery+Price+Service", ("Delivery", "Price", "Service"), said="lines 1 to 2 of survey.csv name its columns"),
    "ticks": Layout(csv("boxes.csv", "text,spam,abuse", lambda n: [sentence(n), "x" if n % 3 else "", "x" if n % 2 else ""]), "labels text=text,labels=spam+abuse", ("spam", "abuse")),
    "a row above that is no second line of names": Layout(text_file("odd.csv", as_csv([["text", "label", "", ""], *([sentence(n), team(n), 1 + n % 3, "a b"] for n in ROWS)])), "refuses names the column '' twice"),
    "where rows come from": Layout(csv("desk.csv", "headline,newspaper,agency,desk", lambda n: [sentence(n), ["Sun", "Post"][n % 3 == 0], ["dpa", "afp"][n % 5 == 0], team(n)]), "class text=headline,label=desk", TEAMS),
    "a confidence": Layout(csv("tweets.csv", "tweet_id,airline_sentiment,airline_sentiment_confidence,text,user_timezone", lambda n: [n, team(n), round(0.5 + n / 130, 3), sentence(n), ["Eastern Time (US & Canada)", "Bern Time (Swiss Alps)", ""][n % 3]]), "class text=text,label=airline_sentiment", TEAMS),
    "fields two deep": Layout(document("hits.json", {"took": 3, "hits": {"total": 60, "hits": [{"_id": str(n), "_source": {"ticket": {"body": sentence(n)}, "annotation": {"category": team(n), "annotator": ["ann", "bob"][n % 3 == 0], "confidence": n / 100}, "meta": {"country": ["ch", "at"][n % 5 == 0]}}} for n in ROWS]}}), "class text=_source.ticket.body,label=_source.annotation.category", TEAMS),
    "nothing but where rows come from": Layout(csv("open.csv", "answer_text,country,gender,age", lambda n: [sentence(n), ["ch", "at"][n % 3 == 0], ["f", "m"][n % 2], 20 + n]), "asks text=answer_text,label=country or text=answer_text,label=gender"),
    "a language or a domain": Layout(csv("both.csv", "text,lang,domain", lambda n: [sentence(n), ["en", "de"][n % 3 == 0], team(n)]), "asks text=text,label=lang or text=text,label=domain"),
    "a label and a length": Layout(csv("lengths.csv", "text,label,text_length,text_code", lambda n: [sentence(n), team(n), 3 * n, ["a", "b"][n % 3 == 0]]), "class text=text,label=label", TEAMS),
    "a mood and a source": Layout(csv("sources.csv", "review,sentiment,review_source", lambda n: [sentence(n), team(n), ["web", "app"][n % 3 == 0]]), "class text=review,label=sentiment", TEAMS),
    "a table for a class": Layout(folder(pos__csv="id,text,rating\n" + "".join(f"{n},{sentence(n)},4\n" for n in range(30)), neg__csv="id,text,rating\n" + "".join(f"{n},{sentence(n)},1\n" for n in range(30))), "refuses has no train file"),
    "a language to tell": Layout(csv("languages.csv", "text,language", lambda n: [sentence(n), team(n)]), "class text=text,label=language", TEAMS),
    "a title and an abstract": Layout(csv("papers.csv", "ID,TITLE,ABSTRACT,Physics,Biology", lambda n: [n, sentence(n, length=5), sentence(n + 500), n % 2, int(n % 3 == 0)]), "labels text=TITLE,text2=ABSTRACT,labels=Physics+Biology", ("Physics", "Biology")),
    "replies to some": Layout(csv("play.csv", "content,mood,replyContent", lambda n: [sentence(n), team(n), sentence(n + 700) if n % 5 == 0 else ""]), "class text=content,label=mood", TEAMS),
    "endings and a source": Layout(csv("train.csv", "video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label", lambda n: [f"v{n}", n, f"{sentence(n)} He", sentence(n), "He", ["gold", "gen"][n % 3 == 0], *(sentence(n + 900 + k, length=4) for k in range(4)), n % 4]), "choice question=startphrase,options=ending0+ending1+ending2+ending3,answer=label"),
    "options below two texts": Layout(csv("which.csv", "premise_part,other_part,ending0,ending1,ending2,label", lambda n: [sentence(n), second(n), *(sentence(n + 900 + k, length=4) for k in range(3)), n % 3]), "asks question=premise_part,options=ending0+ending1+ending2,answer=label or question=other_part"),
    "a reading sheet": Layout(text_file("reading.csv", as_csv([["Passage ID", "Passage", "Question", "Correct answer", "Level"], *([n // 3, (p := passage(n))[0], p[1], "nowhere at all" if n % 20 == 0 else p[2], ["easy", "hard"][n % 2]] for n in ROWS)], ";"), "cp1252"), "spans context=Passage,question=Question,answer=Correct answer", said="without a text or a label: 3"),
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
}  # fmt: skip
