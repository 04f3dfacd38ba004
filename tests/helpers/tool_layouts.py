# ruff: noqa: E501  (a layout is a line)
"""Files as annotation tools, forms, spreadsheets and libraries export them.

Each is written by a public tool. The expectation was fixed before the file was first read: it is
read, asked about with the right answer among the choices, or refused with a sentence that names a
way out.
"""

import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tests.helpers.layouts import (
    ENTITIES,
    ROWS,
    SPAN_TEXTS,
    Layout,
    csv,
    jsonl,
    label_studio,
    marked,
)
from tests.helpers.own_files import as_csv, as_jsonl, second, sentence, tagged, text_file
from tests.helpers.public_layouts import (
    MOODS,
    TOPICS,
    dictionary,
    document,
    frame,
    mood,
    opinion,
    rows_of,
    topics,
    triple,
    verdict,
    with_names,
    workbook,
)

ANSWERS = "class text=text,label=label.responses,verdict=label.responses.status"
SPANS = "tags words=words,tags=tags"
TAKEN = "43 train, 11 dev"
WHOLE = "48 train, 12 dev"


def in_folder(files: Callable[[], Mapping[str, str | bytes]], name: str = "data"):
    """Return a writer of files in a folder; their names may contain folders."""

    def write(place: Path) -> Path:
        for inner, content in files().items():
            path = place / name / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return place / name

    return write


def in_zip(files: Callable[[], Mapping[str, str]], name: str = "data"):
    """Return a writer of an archive with these files in a folder."""

    def write(place: Path) -> Path:
        with zipfile.ZipFile(place / "export.zip", "w") as archive:
            for inner, content in files().items():
                archive.writestr(f"{name}/{inner}", content)
        return place / "export.zip"

    return write


# Argilla.


def answered(number: int, **more: Any) -> dict[str, Any]:
    """Return the answer of a user; every tenth was discarded and has the wrong value."""
    is_bad = number % 10 == 3
    state = {"status": "discarded" if is_bad else "submitted"} if more.pop("states", True) else {}
    return {"value": mood(number + is_bad), "user_id": f"u{number % 2}", **state}


def argilla_nested(number: int, *, states: bool) -> dict[str, Any]:
    """Return a record as `records.to_json` writes it."""
    answer = answered(number, states=states)
    if not states:
        answer["value"] = mood(number)
    return {
        "id": f"r{number}",
        "fields": {"text": opinion(number)},
        "metadata": {"channel": "web"},
        "suggestions": {"label": {"value": mood(number // 3), "score": 0.5, "agent": "model"}},
        "responses": {"label": [answer]},
        "vectors": {},
        "status": "completed",
        "_server_id": f"s{number}",
    }


def feedback(number: int, *, as_lists: bool) -> dict[str, Any]:
    """Return a row of a FeedbackDataset, whose answers the hub stores as an object of lists."""
    answer = answered(number)
    lists = {name: [value] for name, value in answer.items()}
    return {
        "text": opinion(number),
        "label": lists if as_lists else [answer],
        "label-suggestion": mood(number // 3),
        "label-suggestion-metadata": {"type": None, "score": None, "agent": None},
        "external_id": f"e{number}",
        "metadata": "{}",
    }


def flat_answer(name: str, value: Callable[[int], object]) -> Callable[[int], dict[str, object]]:
    return lambda n: {
        "id": f"r{n}",
        "status": "completed",
        "text": sentence(n),
        f"{name}.responses": [value(n)],
        f"{name}.responses.users": ["u1"],
        f"{name}.responses.status": ["submitted"],
    }


# Prodigy and spaCy.


def teach(number: int) -> dict[str, object]:
    """Return a row of textcat.teach; rows that are not accepted have the wrong label."""
    said = verdict(number)
    return {
        "text": opinion(number),
        "label": mood(number + (said != "accept")),
        "score": number % 7 / 7,
        "priority": number % 7 / 7,
        "spans": [],
        "meta": {"score": number % 7 / 7},
        "answer": said,
        "_view_id": "classification",
    }


def with_relations(number: int) -> dict[str, object]:
    text, spans = marked(number, dictionary)
    relation = {
        "head": 0,
        "child": 2,
        "head_span": spans[0],
        "child_span": spans[-1],
        "label": "IN",
    }
    return {"text": text, "spans": spans, "relations": [relation], "answer": "accept"}


def reviewed(number: int) -> dict[str, object]:
    text, spans = marked(number, dictionary)
    version = {"text": text, "spans": spans, "answer": "accept", "sessions": ["ner-me"]}
    return {"text": text, "spans": spans, "answer": "accept", "versions": [version]}


def spacy_json(number: int, **features: str) -> dict[str, object]:
    """Return `doc.to_json()`; its tokens have tags if a tagger has run."""
    text, ents = marked(number, dictionary)
    tokens = [
        {
            "id": k,
            "start": m.start(),
            "end": m.end(),
            **{f: v[k % len(v)] for f, v in features.items()},
        }
        for k, m in enumerate(re.finditer(r"\w+|[^\w\s]", text))
    ]
    return {"text": text, "ents": ents, "sents": [{"start": 0, "end": len(text)}], "tokens": tokens}


# brat and INCEpTION.


def brat_files(
    rows: Sequence[int], more: str = "", shift: int = 0, before: str = ""
) -> dict[str, str]:
    """Return documents of brat; `more` are lines that every document gets below its spans."""
    files = {}
    for number in rows:
        text, spans = marked(number, triple)
        shifted = shift + len(before)
        lines = [
            f"T{k}\t{tag} {start + shifted} {end + shifted}\t{text[start:end]}\n"
            for k, (start, end, tag) in enumerate(spans, 1)
        ]
        files[f"d{number}.txt"] = f"{before}{text}\n"
        files[f"d{number}.ann"] = "".join(lines) + more
    return files


NER = "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value"
POS = "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|coarseValue|PosValue"
LINKS = "#T_RL=webanno.custom.Link|kind|BT_de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"


def webanno(
    layers: Sequence[str], rows: Sequence[int], cell: Callable[[str], str] = lambda name: name
) -> str:
    """Return a WebAnno TSV file; sentences count from 1, and `cell` changes names of entities."""
    lines = ["#FORMAT=WebAnno TSV 3.3", *layers, "", ""]
    place = 0
    for sent, number in enumerate(rows, 1):
        words, tags = tagged(number)
        lines.append(f"#Text={' '.join(words)}")
        for count, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
            name = "_" if tag == "O" else cell(f"PER[{sent}]" if "PER" in tag else "LOC")
            cells = {
                NER: ["_" if name == "_" else "*", name],
                POS: ["*", "NN" if count % 2 else "VB"],
                LINKS: ["near", f"{sent}-2"] if name == "LOC" else ["_", "_"],
            }
            fields = [field for layer in layers for field in cells[layer]]
            head = f"{sent}-{count}\t{place}-{place + len(word)}\t{word}"
            lines.append("\t".join([head, *fields, ""]))
            place += len(word) + 1
        lines.append("")
    return "\n".join(lines) + "\n"


def cas(rows: Sequence[int], *types: str, before: str = "") -> str:
    """Return a document in UIMA CAS JSON; positions count UTF-16 units, as in Java."""
    text, found = "", []

    def units(part: str) -> int:
        return len(part.encode("utf-16-le")) // 2

    def add(kind: str, start: int, end: int, **features: str) -> None:
        begin, last = units(text[:start]), units(text[:end])
        found.append({"%TYPE": kind, "@sofa": 1, "begin": begin, "end": last, **features})

    for number in rows:
        start = len(text)
        said, spans = marked(number, triple)
        text += f"{before}{said}"
        add("de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence", start, len(text))
        at = start + len(before)
        for first, last, tag in spans:
            if "NamedEntity" in types:
                add(
                    "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity",
                    at + first,
                    at + last,
                    value=tag,
                )
        for k, word in enumerate(re.finditer(r"\w+", said)):
            add(
                "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token",
                at + word.start(),
                at + word.end(),
            )
            if "POS" in types:
                add(
                    "de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS",
                    at + word.start(),
                    at + word.end(),
                    PosValue=["NN", "VB"][k % 2],
                )
        text += "\n"
    sofa = {"%TYPE": "uima.cas.Sofa", "sofaNum": 1, "sofaID": "_InitialView", "sofaString": text}
    structures = [{"%ID": n, **each} for n, each in enumerate([sofa, *found], 1)]
    return json.dumps({"%TYPES": {}, "%FEATURE_STRUCTURES": structures, "%VIEWS": {}})


# Label Studio.


def studio(
    number: int, data: Mapping[str, object], *results: Mapping[str, object]
) -> dict[str, object]:
    task = label_studio(number)
    done = [{"to_name": "text", "from_name": "topic", **result} for result in results]
    task["annotations"] = [{"id": number, "was_cancelled": False, "result": done}]
    return task | {"data": dict(data)}


def studio_emoji(number: int) -> dict[str, object]:
    """Return a text that begins with an emoji, which JavaScript counts as two units."""

    def form(start: int, end: int, tag: str) -> dict[str, object]:
        value = {"start": start + 3, "end": end + 3, "text": SPAN_TEXTS[tag], "labels": [tag]}
        return {"type": "labels", "value": value}

    text, results = marked(number, form)
    return studio(number, {"text": f"\U0001f600 {text}"}, *results)


def studio_html(number: int) -> dict[str, object]:
    """Return spans in HTML, whose offsets count from the beginning of an element."""

    def form(start: int, end: int, tag: str) -> dict[str, object]:
        path = {"start": "/p[1]/text()[1]", "end": "/p[1]/text()[1]"}
        offsets = {"startOffset": start, "endOffset": end, "text": SPAN_TEXTS[tag]}
        return {
            "type": "hypertextlabels",
            "value": {**path, **offsets, "hypertextlabels": [tag], "labels": [tag]},
        }

    text, results = marked(number, form)
    return studio(number, {"text": f"<html><body><p>{text}</p></body></html>"}, *results)


def studio_min(number: int) -> dict[str, object]:
    def form(start: int, end: int, tag: str) -> dict[str, object]:
        return {"start": start, "end": end, "text": SPAN_TEXTS[tag], "labels": [tag]}

    text, spans = marked(number, form)
    return {"id": number, "text": text, "label": spans, "annotator": 1, "annotation_id": number}


def two_controls(number: int) -> dict[str, object]:
    def form(start: int, end: int, tag: str) -> dict[str, object]:
        value = {"start": start, "end": end, "text": SPAN_TEXTS[tag], "labels": [tag]}
        return {
            "type": "labels",
            "from_name": {"PER": "people", "LOC": "places"}[tag],
            "value": value,
        }

    text, results = marked(number, form)
    return studio(number, {"text": text}, *results)


# Other tools.


def wit(number: int) -> dict[str, object]:
    def form(start: int, end: int, tag: str) -> dict[str, object]:
        return {
            "entity": f"{tag}:{tag}",
            "start": start,
            "end": end,
            "body": SPAN_TEXTS[tag],
            "entities": [],
        }

    text, spans = marked(number, form)
    return {"text": text, "intent": ["ask", "tell"][number % 2], "entities": spans, "traits": []}


def pubannotation(number: int) -> dict[str, object]:
    text, spans = marked(
        number,
        lambda start, end, tag: {"id": "T1", "span": {"begin": start, "end": end}, "obj": tag},
    )
    return {"text": text, "denotations": spans, "sourcedb": "PubMed", "sourceid": str(number)}


def universal(number: int) -> dict[str, object]:
    text, spans = marked(
        number,
        lambda start, end, tag: {"text": SPAN_TEXTS[tag], "label": tag, "start": start, "end": end},
    )
    return {"document": text, "annotation": {"entities": spans}}


def labelbox(number: int) -> dict[str, object]:
    said = {
        "name": "mood",
        "value": "mood",
        "radio_answer": {"name": mood(number), "value": mood(number)},
    }
    label = {"id": f"l{number}", "annotations": {"objects": [], "classifications": [said]}}
    row = {"id": f"d{number}", "row_data": opinion(number)}
    return {"data_row": row, "projects": {"p1": {"name": "Mood", "labels": [label]}}}


TOLOKA = "INPUT:text,OUTPUT:result,GOLDEN:result,HINT:text,ASSIGNMENT:link,ASSIGNMENT:assignment_id,ASSIGNMENT:worker_id,ASSIGNMENT:status,ASSIGNMENT:started"
FIGURE_8 = "_unit_id,_golden,_unit_state,_trusted_judgments,_last_judgment_at,sentiment,sentiment:confidence,text"
MAXQDA = [
    "Color",
    "Comment",
    "Document group",
    "Document name",
    "Code",
    "Begin",
    "End",
    "Weight score",
    "Segment",
    "Modified by",
    "Modified on",
    "Area",
    "Coverage %",
]
KOBO = "start,end,What happened?,Topics,Topics/billing,Topics/bug,Topics/account,_id,_uuid,_submission_time,_index"


# Libraries.


def saved(place: Path, shards: int, *splits: str) -> Path:
    """Write a data set as `save_to_disk` does, as a DatasetDict if it has splits."""
    import datasets

    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=list(MOODS))
    )
    spans = {"train": range(60), "validation": range(60, 80)}
    parts = {
        name: datasets.Dataset.from_list(
            [{"text": opinion(n), "label": n % 2} for n in span], features=features
        )
        for name, span in spans.items()
    }
    if splits:
        datasets.DatasetDict(parts).save_to_disk(
            place / "saved", num_shards=dict.fromkeys(parts, shards)
        )
    else:
        parts["train"].save_to_disk(place / "saved", num_shards=shards)
    return place / "saved"


def cloned(place: Path) -> Path:
    """Write a clone of a data set on the hub, with a card and Parquet files in `data`."""
    (place / "clone" / "data").mkdir(parents=True)
    (place / "clone" / "README.md").write_text("---\ndataset_info: {}\n---\n")
    for name, span in {
        "train": range(60),
        "validation": range(60, 80),
        "test": range(80, 90),
    }.items():
        rows = [{"text": opinion(n), "label": n % 2} for n in span]
        with_names(
            place / "clone" / "data" / f"{name}-00000-of-00001.parquet",
            rows,
            {"text": "string", "label": MOODS},
        )
    return place / "clone"


def by_pandas(name: str, write: Callable[[pd.DataFrame, Path], object]):
    def made(place: Path) -> Path:
        write(frame(), place / name)
        return place / name

    return made


def japanese(number: int) -> str:
    """Return a text of kana without spaces."""
    return "".join(
        chr(0x3042 + sum(map(ord, word)) % 80) for word in sentence(number, length=20).split()
    )


MAC = "d\u00e9j\u00e0 vu, tr\u00e8s bien, \u00e7a a \u00e9t\u00e9"
GERMAN = "gr\u00f6\u00dfer und sch\u00f6ner, f\u00fcr M\u00e4dchen"
FRENCH = "n\u00b0 5 \u2013 \u00ab aujourd\u00b4hui \u00bb, l\u2019\u00e9t\u00e9\u2026"

TOOLS = {
    # Argilla.
    "Argilla 2, nested": Layout(document("records.json", rows_of(lambda n: argilla_nested(n, states=False))), ANSWERS, MOODS, WHOLE),
    "Argilla 2, nested with states": Layout(document("records.json", rows_of(lambda n: argilla_nested(n, states=True))), ANSWERS, MOODS, TAKEN, "6 discarded"),
    "Argilla 2, nested by id": Layout(document("records.json", {f"r{n}": argilla_nested(n, states=True) for n in ROWS}), ANSWERS, MOODS, TAKEN, "6 discarded"),
    "Argilla 2, several labels": Layout(jsonl("records.jsonl", flat_answer("topics", topics)), "labels text=text,labels=topics.responses,verdict=topics.responses.status", sorted(TOPICS), WHOLE),
    "Argilla 2, a rating": Layout(jsonl("records.jsonl", flat_answer("stars", lambda n: 1 + n % 5)), "asks text=text,label=stars.responses,verdict=stars.responses.status or text=text,number=stars.responses,verdict=stars.responses.status"),
    "Argilla 2, spans with suggestions": Layout(jsonl("records.jsonl", lambda n: {"text": (m := marked(n, dictionary))[0], "spans.responses": [m[1]], "spans.responses.users": ["u1"], "spans.responses.status": ["discarded" if n % 10 == 3 else "submitted"], "spans.suggestion": [{"start": 0, "end": 3, "label": "LOC", "score": 0.5}]}), f"{SPANS},verdict=spans.responses.status", ENTITIES, TAKEN, "6 discarded"),
    "Argilla, FeedbackDataset": Layout(jsonl("feedback.jsonl", lambda n: feedback(n, as_lists=False)), ANSWERS, MOODS, TAKEN, "6 discarded"),
    "Argilla, FeedbackDataset of the hub": Layout(jsonl("feedback.jsonl", lambda n: feedback(n, as_lists=True)), ANSWERS, MOODS, TAKEN, "6 discarded"),
    "Argilla 1, several labels": Layout(jsonl("records.jsonl", lambda n: {"text": sentence(n), "inputs": {"text": sentence(n)}, "prediction": None, "annotation": topics(n), "multi_label": True, "status": "Validated"}), "labels text=text,labels=annotation", sorted(TOPICS), WHOLE),
    # Prodigy and spaCy.
    "Prodigy, ner.teach": Layout(jsonl("teach.jsonl", lambda n: {"text": (m := marked(n, dictionary))[0], "spans": m[1][:1], "meta": {"score": 0.5}, "answer": verdict(n), "_view_id": "ner"}), "refuses run prodigy ner.silver-to-gold"),
    "Prodigy, textcat.teach": Layout(jsonl("teach.jsonl", teach), "class text=text,label=label,verdict=answer", MOODS, "34 train, 8 dev", "12 rejected, 6 ignored"),
    "Prodigy, spans.manual": Layout(jsonl("spans.jsonl", lambda n: {"text": (m := marked(n, dictionary))[0], "spans": [*m[1], {"start": 0, "end": len(m[0]), "label": "CLAIM"}], "answer": "accept", "_view_id": "spans_manual"}), "refuses overlaps with another span"),
    "Prodigy, rel.manual": Layout(jsonl("relations.jsonl", with_relations), SPANS, ENTITIES, WHOLE),
    "Prodigy, review": Layout(jsonl("review.jsonl", reviewed), SPANS, ENTITIES, WHOLE),
    "spaCy, doc.to_json": Layout(jsonl("docs.jsonl", spacy_json), SPANS, ENTITIES, WHOLE),
    "spaCy, doc.to_json with tags": Layout(jsonl("docs.jsonl", lambda n: spacy_json(n, tag=["NN", "VB"], pos=["NOUN", "VERB"])), "asks words=words,tags=ents.tags or words=words,tags=tokens.tags"),
    "spaCy, DocBin": Layout(text_file("train.spacy", b"x\x9c\x00\x01\x02" * 40), "refuses train.spacy is not in a supported format or .jsonl"),
    # brat and INCEpTION.
    "brat, splits": Layout(in_folder(lambda: {f"{split}/{name}": content for split, rows in {"train": ROWS[:40], "dev": ROWS[40:]}.items() for name, content in brat_files(rows).items()}), SPANS, ENTITIES, "40 train, 20 dev"),
    "brat, attributes and notes": Layout(in_folder(lambda: brat_files(ROWS, "A1\tNegation T1\nN1\tReference T1 Wikipedia:1\tAnna\n#1\tAnnotatorNotes T1\tsure\n*\tEquiv T1 T2\n")), SPANS, ENTITIES, WHOLE),
    "brat, positions in another text": Layout(in_zip(lambda: brat_files(ROWS, shift=2)), "refuses d0.ann line 1 gives 'Anna Meyer' as the text of characters or correct one of them"),
    "brat, lines of Windows": Layout(in_folder(lambda: {name: content.replace("\n", "\r\n") if name.endswith(".txt") else content for name, content in brat_files(ROWS, before="so it is\n").items()}), SPANS, ENTITIES, WHOLE),
    "brat, spans inside of spans": Layout(in_zip(lambda: brat_files(ROWS, "T9\tSENT 0 30\n")), "refuses overlaps with another span"),
    "brat, documents without spans": Layout(in_folder(lambda: {name: content.replace("PER", "ORG") for name, content in brat_files(ROWS).items()} | {f"d{n}.ann": "" for n in ROWS[::4]}), SPANS, ("O", "B-LOC", "B-ORG", "I-ORG"), WHOLE),
    "INCEpTION, several layers": Layout(text_file("doc.tsv", webanno([POS, NER], ROWS)), "asks words=words,tags=POS.PosValue or words=words,tags=NamedEntity.value"),
    "INCEpTION, relations": Layout(text_file("doc.tsv", webanno([LINKS, NER], ROWS)), SPANS, ENTITIES, WHOLE),
    "INCEpTION, two spans at a word": Layout(text_file("doc.tsv", webanno([NER], ROWS, lambda name: f"{name}|ORG[9]" if name == "LOC" else name)), "refuses has two spans at the word 'Berlin'"),
    "INCEpTION, a folder of documents": Layout(in_folder(lambda: {f"doc{k}.tsv": webanno([NER], ROWS[k::6]) for k in range(6)}), SPANS, ENTITIES, WHOLE),
    "INCEpTION, a project": Layout(in_folder(lambda: {f"doc{k}.txt/CURATION_USER.tsv": webanno([NER], ROWS[k::6]) for k in range(6)}, "curation"), SPANS, ENTITIES, WHOLE),
    "INCEpTION, two users of a document": Layout(in_zip(lambda: {f"doc{k}.txt/{user}.tsv": webanno([NER], ROWS[k::6]) for k in range(6) for user in ("anna", "ben")}, "annotation"), "refuses annotation/doc0.txt has the annotations of several users (anna.tsv, ben.tsv)"),
    "INCEpTION, joined files": Layout(text_file("docs.tsv", "".join(webanno([NER], ROWS[k::6]) for k in range(6))), SPANS, ENTITIES, WHOLE),
    "INCEpTION, UIMA CAS JSON": Layout(text_file("doc.json", cas(ROWS, "NamedEntity")), SPANS, ENTITIES, WHOLE),
    "INCEpTION, UIMA CAS JSON with emojis": Layout(text_file("doc.json", cas(ROWS, "NamedEntity", before="\U0001f600 ")), SPANS, ENTITIES, WHOLE),
    "INCEpTION, UIMA CAS JSON of several layers": Layout(text_file("doc.json", cas(ROWS, "NamedEntity", "POS")), "asks words=words,tags=NamedEntity.tags or words=words,tags=POS.tags"),
    "INCEpTION, a folder of UIMA CAS JSON": Layout(in_folder(lambda: {f"doc{k}.json": cas(ROWS[k::6], "NamedEntity") for k in range(6)}), SPANS, ENTITIES, WHOLE),
    "INCEpTION, UIMA CAS XMI": Layout(text_file("doc.xmi", '<?xml version="1.0" encoding="UTF-8"?>\n<xmi:XMI xmlns:xmi="http://www.omg.org/XMI"><cas:Sofa xmi:id="1" sofaString="a"/>\n</xmi:XMI>\n'), "refuses doc.xmi is not in a supported format or .json"),
    # Datasaur, doccano and Label Studio.
    "Datasaur, rows with a status": Layout(csv("reviews.csv", "Line,text,Sentiment,Label Status", lambda n: [n, opinion(n), mood(n), "CONFLICTED" if n % 9 == 4 else "RESOLVED"]), "asks text=text,label=Sentiment"),
    "Datasaur, words without tags": Layout(text_file("words.tsv", "\n".join("".join(f"{w}\t{'' if t == 'O' else t}\n" for w, t in zip(*tagged(n), strict=True)) for n in ROWS)), "refuses has no tag for the word or tag every word"),
    "doccano, intents and slots": Layout(jsonl("all.jsonl", lambda n: {"id": n, "text": (m := marked(n, triple))[0], "cats": [["ask", "tell"][n % 2]], "entities": m[1]}), "asks words=words,tags=tags or text=text,label=cats"),
    "doccano, summaries": Layout(jsonl("all.jsonl", lambda n: {"id": n, "text": sentence(n), "label": [second(n)]}), "refuses 60 labels in 60 rows of the column 'label'"),
    "Label Studio, an emoji before": Layout(document("export.json", rows_of(studio_emoji)), SPANS, ENTITIES, WHOLE, "are read as UTF-16 units"),
    "Label Studio, HTML": Layout(document("export.json", rows_of(studio_html)), "refuses export.json row 1 gives 'Anna Meyer' as the text of characters"),
    "Label Studio, a rating": Layout(document("export.json", rows_of(lambda n: studio(n, {"text": sentence(n)}, {"type": "rating", "value": {"rating": 1 + n % 5}}))), "asks text=text,label=topic or text=text,number=topic"),
    "Label Studio, a comparison": Layout(document("export.json", rows_of(lambda n: studio(n, {"text1": sentence(n), "text2": second(n)}, {"type": "pairwise", "value": {"selected": ["left", "right"][n % 2]}}))), "class text=text1,text2=text2,label=topic", ("left", "right"), WHOLE),
    "Label Studio, a taxonomy": Layout(document("export.json", rows_of(lambda n: studio(n, {"text": sentence(n)}, {"type": "taxonomy", "value": {"taxonomy": [["Shop", TOPICS[n % 3]]]}}))), "class text=text,label=topic", sorted(f"Shop/{name}" for name in TOPICS), WHOLE),
    "Label Studio, a text area": Layout(document("export.json", rows_of(lambda n: studio(n, {"text": sentence(n)}, {"type": "textarea", "value": {"text": [second(n)]}}))), "refuses 60 labels in 60 rows of the column 'topic'"),
    "Label Studio before 1.0": Layout(document("export.json", rows_of(lambda n: {"id": n, "data": {"text": opinion(n)}, "completions": [{"id": n, "result": [{"type": "choices", "from_name": "mood", "value": {"choices": [mood(n)]}}]}]})), "class text=text,label=mood", MOODS, WHOLE),
    "Label Studio, JSON-MIN with spans": Layout(document("min.json", rows_of(studio_min)), SPANS, ENTITIES, WHOLE),
    "Label Studio, two controls of spans": Layout(document("export.json", rows_of(two_controls)), "asks words=words,tags=people.tags or words=words,tags=places.tags"),
    # Forms and crowdsourcing.
    "Microsoft Forms, a workbook": Layout(workbook(Sheet1=[["ID", "Start time", "Completion time", "Email", "Name", "What was wrong?", "Which topics?"], *([n + 1, f"1/{1 + n % 28}/24 10:00:00", f"1/{1 + n % 28}/24 10:05:00", "anonymous", "", sentence(n), "".join(f"{t};" for t in topics(n))] for n in ROWS)]), "labels text=What was wrong?,labels=Which topics?", sorted(TOPICS), WHOLE),
    "Google Forms, check boxes": Layout(csv("answers.csv", "Timestamp,What was wrong?,Which topics?", lambda n: [f"2024/01/{1 + n % 28:02} 10:00:00 AM GMT+1", sentence(n), ";".join(topics(n))]), "labels text=What was wrong?,labels=Which topics?", sorted(TOPICS), WHOLE),
    "Google Forms, a scale": Layout(csv("answers.csv", "Timestamp,What was wrong?,How bad was it?", lambda n: [f"2024/01/{1 + n % 28:02} 10:00:00 AM GMT+1", sentence(n), 1 + n % 5]), "asks text=What was wrong?,label=How bad was it? or text=What was wrong?,number=How bad was it?"),
    "KoboToolbox": Layout(csv("answers.csv", KOBO, lambda n: [f"2024-01-{1 + n % 28:02}T10:00:00.000+01:00", f"2024-01-{1 + n % 28:02}T10:05:00.000+01:00", sentence(n), " ".join(topics(n)), *(int(t in topics(n)) for t in TOPICS), 9000 + n, f"{n:08x}-0000-4000-8000-000000000000", f"2024-01-{1 + n % 28:02}T10:06:00", n + 1], ";"), "asks labels=Topics/billing+Topics/bug+Topics/account"),
    "Toloka": Layout(csv("assignments.tsv", TOLOKA, lambda n: [opinion(n), mood(n + (n % 10 == 3)), "", "", f"https://platform.toloka.ai/task/{n}", f"0000{n:04}--6", f"{n % 4:032x}", "REJECTED" if n % 10 == 3 else "APPROVED", f"2024-01-{1 + n % 28:02}T10:00:00"], "\t"), "class text=INPUT:text,label=OUTPUT:result,verdict=ASSIGNMENT:status", MOODS, TAKEN, "6 rejected"),
    "Figure Eight": Layout(csv("a1.csv", FIGURE_8, lambda n: [570_300 + n, "FALSE", "finalized", 3 + n % 3, f"2/25/15 5:{n % 60:02}", mood(n), round(0.5 + n % 9 / 20, 4), opinion(n)]), "class text=text,label=sentiment", MOODS, WHOLE),
    "MAXQDA, a workbook": Layout(workbook(Segments=[MAXQDA, *(["\u25cf", "", ["Group A", "Group B"][n % 3 == 0], f"Interview {n % 7}", TOPICS[n % 3], n, n + 1, 0, sentence(n), "me", f"{1 + n % 28:02}.01.2024 10:00", 60 + n % 11, 0.25 + n % 13] for n in ROWS)]), "asks text=Segment,label=Code"),
    "Jira": Layout(text_file("issues.csv", as_csv([["Summary", "Issue key", "Status", "Labels", "Labels"], *([sentence(n), f"AB-{n}", ["Open", "Done"][n % 2], *topics(n), *([""] if len(topics(n)) < 2 else [])] for n in ROWS)])), "refuses line 1 names the column 'Labels' twice: rename one of them"),
    # Excel and other spreadsheet programs.
    "Excel in Germany": Layout(text_file("noten.csv", as_csv([["Aufsatz", "Note"], *([f"{sentence(n)} {GERMAN}", f"{1 + n % 40 / 10:.1f}".replace(".", ",")] for n in ROWS)], ";"), "utf-8-sig"), "number text=Aufsatz,number=Note", (), WHOLE, "1 to 4.9"),
    "Excel in Germany, cp1252": Layout(text_file("urteile.csv", as_csv([["Nr.", "Kommentar", "Kategorie"], *([n, f"{opinion(n)} {GERMAN} \u2013 \u201eso\u201c f\u00fcr 5 \u20ac", mood(n)] for n in ROWS)], ";"), "cp1252"), "class text=Kommentar,label=Kategorie", MOODS, WHOLE, "read as cp1252"),
    "Excel in Germany, true and false": Layout(text_file("spam.csv", as_csv([["Betreff", "Spam"], *([sentence(n), ["WAHR", "FALSCH"][n % 2]] for n in ROWS)], ";"), "utf-8-sig"), "class text=Betreff,label=Spam", ("FALSCH", "WAHR"), WHOLE),
    "Excel in France, other signs": Layout(text_file("avis.csv", as_csv([["Num\u00e9ro", "Cat\u00e9gorie", "Commentaire"], *([n, mood(n), f"{opinion(n)} {FRENCH}"] for n in ROWS)], ";"), "cp1252"), "class text=Commentaire,label=Cat\u00e9gorie", MOODS, WHOLE, "read as cp1252"),
    "Excel in Japan": Layout(text_file("kanso.csv", as_csv([["\u756a\u53f7", "\u611f\u60f3", "\u8a55\u4fa1"], *([n + 1, japanese(n), ["\u826f\u3044", "\u60aa\u3044"][n % 2]] for n in ROWS)]), "utf-8-sig"), "class text=\u611f\u60f3,label=\u8a55\u4fa1", ("\u60aa\u3044", "\u826f\u3044"), WHOLE),
    "Excel on a Mac": Layout(text_file("avis.csv", as_csv([["texte", "sentiment"], *([f"{sentence(n)} {MAC}", mood(n)] for n in ROWS)], ";"), "mac_roman"), "refuses --encoding mac_roman (which reads 'd\u00e9j\u00e0' there)"),
    "Excel for DOS": Layout(text_file("urteile.csv", as_csv([["Text", "Urteil"], *([f"{sentence(n)} {GERMAN}", mood(n)] for n in ROWS)], ";"), "cp850"), "refuses --encoding cp850 (which reads 'gr\u00f6\u00dfer' there)"),
    "an old Excel file": Layout(text_file("rows.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)), "refuses rows.xls is an old Excel workbook: save its rows as CSV"),
    "LibreOffice": Layout(text_file("rows.ods", b"PK\x03\x04\x14\x00mimetypeapplication/vnd.oasis.opendocument.spreadsheet" + bytes(60)), "refuses rows.ods is a zip archive or an Excel workbook: save its rows as CSV"),
    "SQLite": Layout(text_file("rows.db", b"SQLite format 3\x00" + bytes(600)), "refuses rows.db is an SQLite database: save its rows as CSV"),
    "SPSS": Layout(text_file("rows.sav", b"$FL2@(#) SPSS DATA FILE" + bytes(600)), "refuses rows.sav is an SPSS file: save its rows as CSV"),
    "R, write.table": Layout(text_file("rows.tsv", '"text"\t"label"\n' + "".join(f'"{n + 1}"\t"{opinion(n)}"\t"{mood(n)}"\n' for n in ROWS)), "class text=text,label=label", MOODS, WHOLE),
    "R, write.csv2": Layout(text_file("rows.csv", '"";"text";"grade"\n' + "".join(f'"{n + 1}";"{sentence(n)}";{n},5\n' for n in ROWS)), "number text=text,number=grade", (), WHOLE, "0.5 to 59.5"),
    # Libraries.
    "pandas, lines": Layout(by_pandas("frame.json", lambda f, p: f.to_json(p, orient="records", lines=True)), "class text=text,label=label", MOODS, WHOLE),
    "pandas, values": Layout(by_pandas("frame.json", lambda f, p: f.to_json(p, orient="values")), "class text=1,label=2", MOODS, WHOLE),
    "pandas, to_xml": Layout(by_pandas("frame.xml", lambda f, p: f.to_xml(p, parser="etree")), "class text=text,label=label", MOODS, WHOLE),
    "pandas, to_feather": Layout(by_pandas("frame.feather", lambda f, p: f.to_feather(p)), "class text=text,label=label", MOODS, WHOLE),
    "pandas, to_parquet with an index": Layout(by_pandas("frame.parquet", lambda f, p: f.set_index(f.index * 3 + 1).to_parquet(p)), "class text=text,label=label", MOODS, WHOLE),
    "pandas, a workbook with its index": Layout(by_pandas("frame.xlsx", lambda f, p: f.to_excel(p)), "class text=text,label=label", MOODS, WHOLE),
    "pandas, to_pickle": Layout(by_pandas("frame.pkl", lambda f, p: f.to_pickle(p)), "refuses frame.pkl is a pickle of Python: save its rows as CSV"),
    "pandas, to_html": Layout(by_pandas("frame.html", lambda f, p: f.to_html(p)), "refuses frame.html is not in a supported format or .csv"),
    "Hugging Face, shards of save_to_disk": Layout(lambda place: saved(place, 2, "train", "validation"), "class text=text,label=label", MOODS, "60 train, 20 dev"),
    "Hugging Face, one data set of save_to_disk": Layout(lambda place: saved(place, 1), "class text=text,label=label", MOODS, WHOLE),
    "Hugging Face, a clone of the hub": Layout(cloned, "class text=text,label=label", MOODS, "60 train, 20 dev, 10 test"),
    "Hugging Face, to_json": Layout(jsonl("train.json", lambda n: {"text": sentence(n), "label": n % 2}), "class text=text,label=label", ("0", "1"), WHOLE),
    # Databases and services.
    "objects by number": Layout(document("rows.json", {str(n + 17): {"text": opinion(n), "label": mood(n)} for n in ROWS}), "class text=text,label=label", MOODS, WHOLE),
    "Elasticsearch": Layout(jsonl("dump.json", lambda n: {"_index": "mails", "_type": "_doc", "_id": f"x{n}", "_score": 1, "_source": {"text": opinion(n), "label": mood(n)}}), "class text=_source.text,label=_source.label", MOODS, WHOLE),
    "MongoDB": Layout(jsonl("mails.json", lambda n: {"_id": {"$oid": f"{n:024x}"}, "text": opinion(n), "label": mood(n), "created": {"$date": f"2024-01-{1 + n % 28:02}T10:00:00Z"}}), "class text=text,label=label", MOODS, WHOLE),
    "Wit.ai": Layout(document("utterances-1.json", {"utterances": rows_of(wit)}), "asks words=words,tags=tags or text=text,label=intent"),
    "PubAnnotation": Layout(document("docs.json", rows_of(pubannotation)), SPANS, ENTITIES, WHOLE),
    "Universal Data Tool": Layout(document("task.udt.json", {"interface": {"type": "text_entity_recognition", "labels": []}, "samples": rows_of(universal)}), SPANS, ENTITIES, WHOLE),
    "Labelbox": Layout(jsonl("export.ndjson", labelbox), "refuses no column of export.ndjson can be a label or pass --columns"),
    "OpenAI, prompts and completions": Layout(jsonl("tune.jsonl", lambda n: {"prompt": f"{opinion(n)} ->", "completion": f" {mood(n)}"}), "class text=prompt,label=completion", MOODS, WHOLE),
    "OpenAI, a chat of several turns": Layout(text_file("chat.jsonl", as_jsonl([{"messages": [{"role": role, "content": sentence(4 * n + k)} for k, role in enumerate(("user", "assistant", "user", "assistant"))]} for n in ROWS])), "refuses pass --columns"),
    "Rasa, YAML": Layout(text_file("nlu.yml", 'version: "3.1"\nnlu:\n- intent: ask\n  examples: |\n    - is [Anna](PER) there\n    - and now\n'), "refuses nlu.yml is not in a supported format or .json"),
}  # fmt: skip
"""Exports of tools, keyed by the tool and, if it has several formats, by the format."""
