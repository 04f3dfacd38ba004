# ruff: noqa: E501  (a layout is a line)
"""Common files with look-alikes: dumps, lists of numbers, aspects, facts, XML."""

from tests.helpers.layouts import ROWS, Layout, csv, folder, jsonl
from tests.helpers.messy_layouts import TEAMS, team
from tests.helpers.own_files import as_csv, second, sentence, text_file
from tests.helpers.public_layouts import MOODS, mood, opinion, workbook

FEELINGS = (
    "anger",
    "fear",
    "joy",
    "love",
    "pride",
    "relief",
    "shame",
    "trust",
    "envy",
    "hope",
    "awe",
    "grief",
)
SETS = ("0,10", "1", "2", "3,11", "4", "5,7", "0", "6", "8", "9,10")


def emotions(rows: range) -> str:
    return as_csv([[sentence(n), SETS[n % 10], f"e{n}x"] for n in rows], "\t")


def aspects(*names: str, label: object = MOODS) -> list[list[object]]:
    """Return a header and two rows per sentence, with different words and moods."""
    texts = [sentence(n // 2) for n in range(120)]
    rows = [
        [n, texts[n], texts[n].split()[n % 2 * 3], f"user{n:03}", label[n % 2]] for n in range(120)
    ]
    places = {"id": 0, "text": 1, "part": 2, "user": 3, "label": 4}
    chosen = [places[name.partition("=")[0]] for name in names]
    return [
        [name.rpartition("=")[2] for name in names],
        *([row[at] for at in chosen] for row in rows),
    ]


def essay(number: int) -> list[object]:
    prompt = ["A place I remember", "Phones in our school", "The best day of all"][number % 3]
    return [
        f"E{number}",
        prompt,
        6 + number % 3 * 2,
        ["F", "M"][number % 2],
        sentence(number),
        1 + number % 9 / 2,
    ]


def sts(number: int) -> list[object]:
    return [
        ["news", "forum"][number % 3 == 0],
        "MSRvid",
        "2012test",
        f"{number:04}",
        f"{number % 26 / 5:.3f}",
        sentence(number),
        second(number),
    ]


def choice(number: int) -> dict[str, object]:
    menu = [{"id": name, "text": name.title()} for name in TEAMS]
    verdict = "reject" if number % 20 == 7 else "accept"
    meta = {"source": ["web", "print"][number % 3 == 0]}
    return {
        "text": sentence(number),
        "meta": meta,
        "options": menu,
        "accept": [team(number)],
        "answer": verdict,
    }


def xml(row, head: str = '<?xml version="1.0" encoding="UTF-8"?>\n') -> str:
    return f"{head}<tweets>\n{''.join(f'<tweet>{row(n)}</tweet>' for n in ROWS)}</tweets>\n"


def intertass(number: int) -> str:
    value = ("N", "NONE", "P")[number % 3]
    return f"<tweetid>{number}</tweetid><content>{sentence(number)} &amp; more</content><date>2016-06-11 05:08:50</date><lang>es</lang><sentiment><polarity><value>{value}</value></polarity></sentiment>"


LEGEND = [
    ["code", "kind", "meaning"],
    *(
        [name, kind, f"what we call {name} in our own office"]
        for name, kind in zip(("repair", "sales") * 2, "aabb", strict=True)
    ),
]
NULL_ROWS = [
    [n, sentence(n) if n % 13 else "NULL", "NULL" if n % 11 == 5 else team(n), "NULL"] for n in ROWS
]

COMMON = {
    # Empty cells in dumps of databases.
    "phpMyAdmin's NULL": Layout(text_file("rows.csv", as_csv([["id", "body", "label", "changed"], *NULL_ROWS], ";")), "class text=body,label=label", TEAMS, said="values that mean a missing label (rename them if they are classes): 'NULL' (5)"),
    "PostgreSQL's empty cells": Layout(csv("rows.tsv", "body,label", lambda n: [sentence(n), "\\N" if n % 11 == 5 else team(n)], "\t"), "class text=body,label=label", TEAMS, said="'\\\\N' (5)"),
    "NULL among 0 and 1": Layout(csv("rows.csv", "body,label", lambda n: [sentence(n), "NULL" if n % 11 == 5 else n % 2]), "class text=body,label=label", ("0", "1")),
    "Python's None": Layout(csv("rows.csv", "body,label", lambda n: [sentence(n), "None" if n % 11 == 5 else team(n)]), "class text=body,label=label", TEAMS, said="'None' (5)"),
    "Python's None in other columns too": Layout(csv("rows.csv", "body,label,closed", lambda n: [sentence(n), "None" if n % 11 == 5 else team(n).title(), ["None", "2024-01-02"][n % 2]]), "class text=body,label=label", ("Repair", "Sales"), said="'None' (5)"),
    "a class None": Layout(csv("rows.csv", "body,label", lambda n: [sentence(n), ("Food", "None", "Service")[n % 3]]), "class text=body,label=label", ("Food", "None", "Service")),
    "a class none": Layout(csv("rows.csv", "body,label", lambda n: [sentence(n), ("food", "none", "service")[n % 3]]), "class text=body,label=label", ("food", "none", "service")),
    "NULL among lists": Layout(csv("rows.csv", "body,tags", lambda n: [sentence(n), "NULL" if n % 11 == 5 else ["a|b", "b", "a"][n % 3]]), "labels text=body,labels=tags", ("a", "b"), said="'NULL' (5)"),
    # Numbers with commas between them.
    "GoEmotions": Layout(folder(train__tsv=emotions(range(60)), dev__tsv=emotions(range(61, 90)), emotions__txt="\n".join(FEELINGS)), "labels text=1,labels=2", sorted(set(FEELINGS)), said="column 2 of dev.tsv are the lines of emotions.txt"),
    "GoEmotions without names": Layout(csv("train.tsv", "text,emotions,id", lambda n: [sentence(n), SETS[n % 10], f"e{n}x"], "\t"), "asks text=text,labels=emotions or text=text,number=emotions"),
    "numbers of labels in any order": Layout(csv("train.csv", "text,emotions", lambda n: [sentence(n), SETS[n % 10].replace("5,7", "7,5")]), "asks text=text,labels=emotions or text=text,number=emotions"),
    "three numbers": Layout(csv("rows.csv", "text,codes", lambda n: [sentence(n), SETS[n % 10].replace("5,7", "5,7,12")]), "labels text=text,labels=codes", tuple(map(str, range(13)))),
    "prices with a comma": Layout(csv("rows.csv", "text,price", lambda n: [sentence(n), f"{n % 9},{50 + n % 7 * 7}"], ";"), "number text=text,number=price"),
    "grades with a comma": Layout(csv("rows.csv", "text,grade", lambda n: [sentence(n), ("1", "1,3", "1,7", "2", "2,3", "2,7", "3", "3,3")[n % 8]], ";"), "asks text=text,labels=grade or text=text,number=grade"),
    # One text with several labels.
    "aspects of sentences": Layout(text_file("absa.csv", as_csv(aspects("id", "text", "part=Aspect Term", "label=polarity"))), "class text=text,text2=Aspect Term,label=polarity", MOODS),
    "words of a text under another name": Layout(text_file("absa.csv", as_csv(aspects("text", "part=word2", "label=mood"))), "class text=text,text2=word2,label=mood", MOODS),
    "users of a text": Layout(text_file("votes.csv", as_csv(aspects("text", "user=nick", "label=mood"))), "asks text=text,label=mood or text=text,text2=nick,label=mood"),
    "annotators of a text": Layout(text_file("votes.csv", as_csv(aspects("text", "user=annotator", "label=mood"))), "class text=text,label=mood", MOODS, said="60 texts have several labels"),
    "stances on several targets": Layout(csv("stance.csv", "Tweet,Target,Stance", lambda n: [sentence(n), ["Coal", "Wind"][n % 5 == 0], ("AGAINST", "FAVOR", "NONE")[n % 3]]), "asks text=Tweet,label=Target or text=Tweet,label=Stance"),
    # Tables without column names.
    "the spam collection": Layout(text_file("spam.csv", as_csv([["v1", "v2", "", "", ""], *([mood(n), opinion(n), *([" PO Box 5249", "16+"] if n % 30 == 4 else ["", ""]), ""] for n in ROWS)])), "class text=v2,label=v1", MOODS, said="unnamed 3, unnamed 4"),
    # Sheets.
    "a legend and a total": Layout(workbook(Rows=[["Office", "", "", ""], ["no", "body", "team", "remark"], *([n, sentence(n), team(n), ""] for n in ROWS), ["Total", "", 60, ""]], Legend=LEGEND), "class text=body,label=team", TEAMS, said="'Rows' is read; ignored: 'Legend'"),
    "a legend that could be learned": Layout(workbook(Rows=[["no", "body", "team"], *([n, sentence(n), team(n)] for n in ROWS)], Legend=LEGEND), "class text=body,label=team", TEAMS, said="'Rows' is read; ignored: 'Legend'"),
    "two workbook sheets of rows": Layout(workbook(North=[["body", "team"], *([sentence(n), team(n)] for n in ROWS)], South=[["body", "team"], *([sentence(n), team(n)] for n in range(90, 95))]), "refuses --sheet 'North' or --sheet 'South'"),
    # Facts about the rows, such as their source.
    "Prodigy's choices with a source": Layout(jsonl("choices.jsonl", choice), "class text=text,label=accept,verdict=answer", TEAMS),
    "a label among metadata": Layout(jsonl("rows.jsonl", lambda n: {"text": sentence(n), "lang": ["de", "en"][n % 3 == 0], "_meta": {"label": team(n)}}), "class text=text,label=_meta.label", TEAMS),
    "STS with its genre": Layout(csv("sts-train.tsv", "genre,filename,year,id,score,sentence1,sentence2", sts, "\t"), "number text=sentence1,text2=sentence2,number=score"),
    "a genre and a score of one text": Layout(csv("films.csv", "plot,genre,score", lambda n: [sentence(n), ["drama", "crime"][n % 2], n % 26 / 5]), "asks text=plot,label=genre or text=plot,number=score"),
    "essays with their prompt": Layout(csv("essays.csv", "essay_id,prompt_name,grade_level,gender,full_text,holistic_score", essay), "number text=full_text,number=holistic_score"),
    "a level alone": Layout(csv("texts.csv", "text,grade_level", lambda n: [sentence(n), ["low", "high"][n % 2]]), "class text=text,label=grade_level", ("high", "low")),
    "labels of race and gender": Layout(csv("hate.csv", "text,toxic_label,race_label,gender_label", lambda n: [sentence(n), n % 2, int(n % 3 == 0), int(n % 5 == 0)]), "labels text=text,labels=toxic_label+race_label+gender_label", ("toxic_label", "race_label", "gender_label")),
    # XML files.
    "InterTASS": Layout(folder(**{"intertass-train__xml": xml(intertass), "stats__md": "about"}), "class text=content,label=sentiment.polarity.value", ("N", "NONE", "P")),
    "labels in attributes": Layout(text_file("docs.xml", "".join(["<docs>", *(f'<doc mood="{mood(n)}" n="{n}">{opinion(n)}</doc>' for n in ROWS), "</docs>"])), "class text=text,label=mood", MOODS),
    "two classes in XML": Layout(text_file("rows.xml", xml(lambda n: f"<text>{sentence(n)}</text><topic>{team(n)}</topic><sentiment>{mood(n // 2)}</sentiment>")), "asks text=text,label=topic or text=text,label=sentiment"),
    "aspects in XML": Layout(text_file("rows.xml", xml(lambda n: f"<text>{sentence(n)}</text><terms term='an attribute of this name'>" + '<term term="a" polarity="pos"/>' * (1 + n % 3) + "</terms>")), "refuses no column of rows.xml can be a label"),
    "entities in XML": Layout(text_file("rows.xml", xml(intertass, '<!DOCTYPE r [<!ENTITY a "aaaa">]>\n')), "refuses declares XML entities"),
    "half an XML": Layout(text_file("rows.xml", xml(intertass)[:-20]), "refuses rows.xml line 3 column or is not XML"),
    "XML of no rows": Layout(text_file("rows.xml", "<a><b/><c>1</c></a>"), "refuses is XML without rows"),
    "XML too deep": Layout(text_file("rows.xml", f"<r>{('<a>' * 40 + 'x' + '</a>' * 40) * 3}</r>"), "refuses more than 20 levels deep"),
    "statistics in XML beside rows": Layout(folder(train__csv=as_csv([["text", "label"], *([opinion(n), mood(n)] for n in ROWS)]), train__xml="<s><n>1</n><n>2</n></s>"), "class text=text,label=label", MOODS),
}  # fmt: skip
"""Layouts of each kind, next to layouts that they must not be mistaken for."""
