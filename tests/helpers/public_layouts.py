# ruff: noqa: E501  (a layout is a line)
"""Files in the layouts of annotation tools, libraries, cloud services and released data sets.

The first word of a text is its label ("likepos ..."), and people and places are tagged as such, so
that a test can check labels and tags.
"""

import json
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from tests.helpers.layouts import (
    ENTITIES,
    NLI,
    ROWS,
    SPAN_TEXTS,
    Layout,
    csv,
    folder,
    jsonl,
    label_studio,
    marked,
)
from tests.helpers.own_files import (
    as_csv,
    as_jsonl,
    passage,
    second,
    sentence,
    squad,
    tagged,
    text_file,
)

MOODS = ("neg", "pos")
TOPICS = ("billing", "bug", "account")


def mood(number: int) -> str:
    return MOODS[number % 2]


def opinion(number: int) -> str:
    """Return a text that begins with its label."""
    return sentence(number, f"like{mood(number)}")


def topics(number: int) -> list[str]:
    """Return one or two of three topics, in any order."""
    first = TOPICS[number % 3]
    return [TOPICS[(number + 1) % 3], first] if number % 4 == 0 else [first]


def document(name: str, content: object) -> Callable[[Path], Path]:
    return text_file(name, json.dumps(content, ensure_ascii=False))


def rows_of(row: Callable[[int], object]) -> list[object]:
    return [row(n) for n in ROWS]


def verdict(number: int) -> str:
    """Return Prodigy's verdict: 42 of 60 rows are accepted, 12 rejected and 6 ignored."""
    return "reject" if number % 5 == 3 else "ignore" if number % 10 == 7 else "accept"


def dictionary(start: int, end: int, tag: str) -> dict[str, object]:
    return {"start": start, "end": end, "label": tag}


def triple(start: int, end: int, tag: str) -> list[object]:
    return [start, end, tag]


# Rows of annotation tools.


def prodigy_manual(number: int) -> dict[str, object]:
    """Return a row with Prodigy's tokens; rejected rows have wrong spans."""
    text, spans = marked(number, dictionary)
    if verdict(number) != "accept":
        spans = [{"start": 0, "end": 3, "label": "LOC"}]
    tokens = [
        {"text": w, "id": k, "start": 0, "end": 1, "ws": True} for k, w in enumerate(text.split())
    ]
    return {
        "text": text,
        "tokens": tokens,
        "spans": spans,
        "_input_hash": number,
        "answer": verdict(number),
    }


def prodigy_choice(number: int, accept: Sequence[str]) -> dict[str, object]:
    options = [{"id": name, "text": name.title()} for name in TOPICS]
    return {
        "text": sentence(number),
        "options": options,
        "accept": list(accept),
        "config": {"choice_style": "single"},
        "answer": "accept" if number % 10 else "ignore",
    }


def studio_task(number: int) -> dict[str, object]:
    """Return a task; some are cancelled, some annotated twice with one ground truth."""
    task = label_studio(number)
    task["data"] = {"text": opinion(number)}
    (done,) = task["annotations"]

    def choice(name: str, **facts: object) -> dict[str, object]:
        value = {"choices": [name]}
        return {
            **done,
            "result": [{"type": "choices", "value": value, "from_name": "mood"}],
            **facts,
        }

    right = choice(mood(number))
    if number % 10 == 3:
        task["annotations"] = [{**right, "was_cancelled": True}]
    elif number % 10 == 4:
        task["annotations"] = [choice(mood(number + 1)), {**right, "ground_truth": True}]
    else:
        task["annotations"] = [right]
    return task


def studio_span(start: int, end: int, tag: str) -> dict[str, object]:
    return {"start": start, "end": end, "text": SPAN_TEXTS[tag], "labels": [tag]}


def argilla_1(number: int) -> dict[str, object]:
    status = "Discarded" if number % 10 == 3 else "Default" if number % 10 == 4 else "Validated"
    annotation = {"Validated": mood(number), "Discarded": mood(number + 1), "Default": None}[status]
    return {
        "text": opinion(number),
        "inputs": {"text": opinion(number)},
        "prediction": [{"label": "pos", "score": 0.7}],
        "prediction_agent": "model",
        "annotation": annotation,
        "annotation_agent": "me",
        "multi_label": False,
        "id": f"a{number}",
        "metadata": {},
        "status": status,
    }


def argilla_2(number: int) -> dict[str, object]:
    status = "discarded" if number % 10 == 3 else "draft" if number % 10 == 4 else "submitted"
    answer = mood(number if status == "submitted" else number + 1)
    return {
        "id": f"r{number}",
        "status": "completed",
        "_server_id": f"s{number}",
        "text": opinion(number),
        "label.responses": [answer],
        "label.responses.users": ["u1"],
        "label.responses.status": [status],
        "label.suggestion": mood(number // 3),
        "label.suggestion.score": 0.5,
    }


def ubiai(number: int) -> dict[str, object]:
    text, spans = marked(
        number,
        lambda start, end, tag: {
            "text": SPAN_TEXTS[tag],
            "start": start,
            "end": end,
            "token_start": 0,
            "token_end": 1,
            "entityLabel": tag,
        },
    )
    return {"documentName": f"{number}.txt", "document": text, "tokens": spans, "relations": []}


def lighttag(number: int) -> dict[str, object]:
    text, spans = marked(
        number,
        lambda start, end, tag: {
            "start": start,
            "end": end,
            "tag": tag,
            "value": SPAN_TEXTS[tag],
            "tagged_token_id": "t",
            "correct": None,
            "annotated_by": [{"annotator": "me"}],
        },
    )
    return {
        "example_id": f"e{number}",
        "content": text,
        "metadata": {},
        "annotations": spans,
        "classifications": [],
    }


def dataturks(number: int) -> dict[str, object]:
    """Return a row whose span ends are inclusive."""
    text, spans = marked(
        number,
        lambda start, end, tag: {
            "label": [tag],
            "points": [
                {
                    "start": start,
                    "end": end - 1,
                    "text": SPAN_TEXTS[tag],
                }
            ],
        },
    )
    return {"content": text, "annotation": spans, "extras": None, "metadata": {"first_done_at": 1}}


def webanno(number: int) -> str:
    """Return tokens with offsets; entities of several words have a number after their name."""
    words, tags = tagged(number)
    lines, place = [f"#Text={' '.join(words)}"], 0
    for count, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
        name = "_" if tag == "O" else "PER[1]" if "PER" in tag else "LOC"
        lines.append(f"{number + 1}-{count}\t{place}-{place + len(word)}\t{word}\t_\t{name}\t")
        place += len(word) + 1
    return "\n".join(lines) + "\n"


def brat(place: Path) -> Path:
    made = place / "brat"
    made.mkdir()
    (made / "annotation.conf").write_text("[entities]\nPER\nLOC\n")
    for number in ROWS:
        text, spans = marked(number, triple)
        (made / f"d{number}.txt").write_text(f"{text}\n")
        lines = [
            f"T{k}\t{tag} {start} {end}\t{text[start:end]}\n"
            for k, (start, end, tag) in enumerate(spans, 1)
        ]
        (made / f"d{number}.ann").write_text("".join(lines) + "R1\tLivesIn Arg1:T1 Arg2:T2\n")
    return made


# Files with one word per line.


def columns(
    name: str, line: Callable[[int, str, str], str], before: Callable[[int], str] = lambda n: ""
):
    """Return a writer of one word per line; `line` gets the number from 1, word and tag."""

    def one(number: int) -> str:
        pairs = zip(*tagged(number), strict=True)
        return before(number) + "".join(line(k, w, t) + "\n" for k, (w, t) in enumerate(pairs, 1))

    return text_file(name, "\n".join(map(one, ROWS)))


def bilou(tags: Sequence[str]) -> list[str]:
    ends = [*(not after.startswith("I-") for after in tags[1:]), True]
    first = {(True, True): "U", (True, False): "B", (False, True): "L", (False, False): "I"}
    return [
        t if t == "O" else first[t[0] == "B", last] + t[1:]
        for t, last in zip(tags, ends, strict=True)
    ]


def conllu_odd(number: int) -> str:
    """Return a sentence with a multiword token, an empty node, and words with spaces."""
    words = [*tagged(number)[0], "1 000", "a\u00a0b", "#"]
    lines = [
        f"{k}\t{w}\t_\t{'NOUN' if k % 2 else 'VERB'}\t_\t_\t0\troot\t_\t_"
        for k, w in enumerate(words, 1)
    ]
    lines[2:2] = ["3-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_"]
    lines += ["9.1\tgone\t_\tVERB\t_\t_\t_\t_\t0:root\t_"]
    return f"# newdoc\n# text = {' '.join(words)}\n" + "\n".join(lines) + "\n"


def mistyped(number: int) -> str:
    lines = [
        f"{w} {'BPER' if (t, number) == ('B-PER', 7) else t}"
        for w, t in zip(*tagged(number), strict=True)
    ]
    return "\n".join(lines) + "\n"


# Files of libraries.


def with_names(path: Path, rows: list[dict[str, object]], features: dict[str, object]) -> Path:
    import datasets

    named = {
        n: datasets.Sequence(datasets.ClassLabel(names=f[0]))
        if isinstance(f, list)
        else datasets.ClassLabel(names=list(f))
        if isinstance(f, tuple)
        else datasets.Value(str(f))
        if isinstance(f, str)
        else f
        for n, f in features.items()
    }
    datasets.Dataset.from_list(rows, features=datasets.Features(named)).to_parquet(str(path))
    return path


def named_parquet(place: Path) -> Path:
    """Write a train file with label names, and a test file with hidden labels."""
    for name, span in {"train": range(60), "test": range(60, 80)}.items():
        rows = [{"text": opinion(n), "label": -1 if name == "test" else n % 2} for n in span]
        with_names(place / f"{name}.parquet", rows, {"text": "string", "label": MOODS})
    return place


def named_tags(place: Path) -> Path:
    names = list(ENTITIES)
    rows = [
        {"tokens": w, "ner_tags": [names.index(t) for t in tags]} for w, tags in map(tagged, ROWS)
    ]
    import datasets

    words = datasets.Sequence(datasets.Value("string"))
    return with_names(place / "train.parquet", rows, {"tokens": words, "ner_tags": [names]})


def saved_to_disk(place: Path) -> Path:
    import datasets

    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=list(MOODS))
    )
    parts = {
        name: datasets.Dataset.from_list(
            [{"text": opinion(n), "label": n % 2} for n in span], features=features
        )
        for name, span in {"train": range(40), "test": range(40, 60)}.items()
    }
    datasets.DatasetDict(parts).save_to_disk(str(place / "saved"))
    return place / "saved"


def frame() -> pd.DataFrame:
    return pd.DataFrame({"text": [opinion(n) for n in ROWS], "label": [mood(n) for n in ROWS]})


def pandas_json(orient: str):
    return text_file("frame.json", frame().to_json(orient=orient))


def numpy_list(names: Sequence[str]) -> str:
    return f"[{' '.join(map(repr, names))}]"


def workbook(**sheets: list[list[object]]):
    def write(place: Path) -> Path:
        with pd.ExcelWriter(place / "book.xlsx") as book:
            for name, rows in sheets.items():
                pd.DataFrame(rows).to_excel(
                    book, sheet_name=name.replace("_", " "), index=False, header=False
                )
        return place / "book.xlsx"

    return write


def newsgroups(place: Path) -> Path:
    """Write files without a suffix, in folders of classes inside folders of splits."""
    for split, span in {"train": range(40), "test": range(40, 60)}.items():
        for n in span:
            path = place / "news" / f"20news-bydate-{split}" / f"rec.{mood(n)}" / str(49960 + n)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"From: me\nSubject: {opinion(n)}\n")
    return place / "news"


# Files of cloud services.


def vertex(number: int) -> dict[str, object]:
    part = ["training", "training", "training", "validation", "test"][number % 5]
    return {
        "classificationAnnotation": {"displayName": mood(number)},
        "textContent": opinion(number),
        "dataItemResourceLabels": {"aiplatform.googleapis.com/ml_use": part},
    }


def vertex_spans(number: int) -> dict[str, object]:
    text, spans = marked(
        number, lambda start, end, tag: {"startOffset": start, "endOffset": end, "displayName": tag}
    )
    return {"textSegmentAnnotations": spans, "textContent": text}


def rasa(number: int) -> dict[str, object]:
    text, spans = marked(
        number,
        lambda start, end, tag: {
            "start": start,
            "end": end,
            "value": SPAN_TEXTS[tag],
            "entity": tag,
        },
    )
    return {"text": text, "intent": ["ask", "tell"][number % 2], "entities": spans}


def snips(number: int) -> dict[str, object]:
    """Return a text in pieces, of which some are entities."""
    words, tags = tagged(number)
    pieces: list[dict[str, object]] = [
        {"text": f"{' '.join(words[:1])} "},
        {"text": "Anna Meyer", "entity": "PER"},
        {"text": f" {words[3]} "},
    ]
    last = {"text": words[4], "entity": "LOC"} if tags[4] != "O" else {"text": words[4]}
    return {"data": [*pieces, last, {"text": f" {words[5]}"}]}


def chat(number: int) -> dict[str, object]:
    said = {"system": "Name the mood.", "user": opinion(number), "assistant": mood(number)}
    return {"messages": [{"role": role, "content": text} for role, text in said.items()]}


# Rows of question answering.


def mrqa(number: int) -> dict[str, object]:
    context, question, answer = passage(number)
    start = context.index(answer)
    found = [
        {"text": answer, "char_spans": [[start, start + len(answer) - 1]], "token_spans": [[5, 6]]}
    ]
    asked = {
        "qid": f"q{number}",
        "question": question,
        "answers": [answer],
        "detected_answers": found,
        "question_tokens": [],
    }
    return {"id": "", "context": context, "qas": [asked], "context_tokens": [["w", 0]]}


def untitled(number: int) -> dict[str, object]:
    article = squad(number)
    del article["title"]
    for asked in article["paragraphs"][0]["qas"]:
        asked["is_impossible"] = number % 3 == 0
        asked["answers"] = [] if number % 3 == 0 else asked["answers"]
        asked["plausible_answers"] = []
    return article


def unicode_label(number: int) -> str:
    return ("obst", unicodedata.normalize("NFC", "gemüse"), unicodedata.normalize("NFD", "gemüse"))[
        number % 3
    ]


def split_tables(**counts: tuple[range, Callable[[int], Sequence[object]]]):
    files = {
        f"{name}__csv": as_csv([["id", "text", "label"], *(row(n) for n in span)])
        for name, (span, row) in counts.items()
    }
    return folder(**files)


def labelled_row(number: int) -> list[object]:
    return [number, opinion(number), mood(number)]


BLANKS = ("1\u00a0000", "New York", "a\u2028b", "c\u3000d")
FORMS = "Timestamp,How would you describe the service that you got from us this time in your own words?,Would you come back?"

PUBLIC = {
    # Annotation tools.
    "spaCy, entities in pairs": Layout(document("train.json", rows_of(lambda n: [(m := marked(n, triple))[0], {"entities": m[1]}])), "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "spaCy, cats in pairs": Layout(document("cats.json", rows_of(lambda n: [opinion(n), {"cats": {"POS": float(n % 2), "NEG": 1.0 - n % 2}}])), "asks label=cats.POS+cats.NEG or labels=cats.POS+cats.NEG"),
    "Prodigy, verdicts of entities": Layout(jsonl("ner.jsonl", prodigy_manual), "tags words=words,tags=tags,verdict=answer", ENTITIES, "34 train, 8 dev", "12 rejected, 6 ignored"),
    "Prodigy, words of its own": Layout(jsonl("ner.jsonl", lambda n: {**prodigy_manual(n), "answer": "accept", "tokens": marked(n, dictionary)[0].split(), "spans": marked(n, dictionary)[1]}), "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "Prodigy, one label accepted or rejected": Layout(jsonl("binary.jsonl", lambda n: {"text": sentence(n, "likeSPAM" if n % 2 else "likenot SPAM"), "label": "SPAM", "_task_hash": n, "answer": "ignore" if n % 10 == 6 else "accept" if n % 2 else "reject"}), "class text=text,label=label,verdict=answer", ("SPAM", "not SPAM"), "43 train, 11 dev", "6 ignored"),
    "Prodigy, a choice": Layout(jsonl("choice.jsonl", lambda n: prodigy_choice(n, [TOPICS[n % 3]])), "class text=text,label=accept,verdict=answer", sorted(TOPICS), "43 train, 11 dev", "6 ignored"),
    "Prodigy, several choices": Layout(jsonl("choices.jsonl", lambda n: prodigy_choice(n, topics(n))), "labels text=text,labels=accept,verdict=answer", sorted(TOPICS), "43 train, 11 dev"),
    "Label Studio, cancelled and ground truth": Layout(document("export.json", rows_of(studio_task)), "class text=text,label=mood", MOODS, "43 train, 11 dev", "6 tasks with cancelled annotations"),
    "Label Studio, spans in a CSV": Layout(csv("spans.csv", "text,id,label,annotator,lead_time", lambda n: [(m := marked(n, studio_span))[0], n, json.dumps(m[1]), 1, 2.5 + n]), "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "Label Studio, choices in a CSV": Layout(csv("choices.csv", "text,id,topic,annotator", lambda n: [sentence(n), n, json.dumps({"choices": topics(n)}) if len(topics(n)) > 1 else topics(n)[0], 1]), "labels text=text,labels=topic", sorted(TOPICS), "48 train, 12 dev"),
    "Label Studio, CoNLL": Layout(columns("project.conll", lambda k, w, t: f"{w} -X- _ {t}", lambda n: "" if n else "-DOCSTART- -X- O\n"), "tags words=1,tags=4", ENTITIES, "48 train, 12 dev"),
    "doccano, confirmed": Layout(jsonl("all.jsonl", lambda n: {"id": n, "text": opinion(n), "label": [mood(n if n % 10 != 3 else n + 1)], "is_confirmed": n % 10 != 3}), "class text=text,label=label,verdict=is_confirmed", MOODS, "43 train, 11 dev", "6 not confirmed"),
    "Argilla 1": Layout(jsonl("records.jsonl", argilla_1), "class text=text,label=annotation,verdict=status", MOODS, "38 train, 10 dev", "6 discarded"),
    "Argilla 2": Layout(jsonl("records.jsonl", argilla_2), "class text=text,label=label.responses,verdict=label.responses.status", MOODS, "38 train, 10 dev", "6 discarded"),
    "UBIAI": Layout(document("ubiai.json", rows_of(ubiai)), "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "LightTag": Layout(document("lighttag.json", {"examples": rows_of(lighttag), "relations": [], "schema": {"tags": []}}), "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "Dataturks": Layout(jsonl("dataturks.jsonl", dataturks), "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "INCEpTION, WebAnno TSV 3": Layout(text_file("doc.tsv", "#FORMAT=WebAnno TSV 3.3\n#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value\n\n\n" + "\n".join(map(webanno, ROWS))), "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "brat": Layout(brat, "tags words=words,tags=tags", ENTITIES, "48 train, 12 dev"),
    "Argilla 1, tokens": Layout(jsonl("records.jsonl", lambda n: {"text": " ".join(tagged(n)[0]), "tokens": tagged(n)[0], "prediction": None, "annotation": [[tag, start, end] for start, end, tag in marked(n, triple)[1]], "status": "Validated"}), "tags words=words,tags=tags", ENTITIES),
    "Argilla 2, spans": Layout(jsonl("records.jsonl", lambda n: {"text": (m := marked(n, dictionary))[0], "spans.responses": [m[1]], "spans.responses.users": ["u1"], "spans.responses.status": ["discarded" if n % 10 == 3 else "submitted"]}), "tags words=words,tags=tags,verdict=spans.responses.status", ENTITIES, "43 train, 11 dev", "6 discarded"),
    "Argilla 2, rows without an answer": Layout(jsonl("records.jsonl", lambda n: {"text": opinion(n), "status": "pending" if n % 10 == 3 else "completed", **dict(zip(("label.responses", "label.responses.users", "label.responses.status"), [None] * 3 if n % 10 == 3 else ([mood(n)], ["u1"], ["submitted"]), strict=True))}), "class text=text,label=label.responses,verdict=label.responses.status", MOODS, "43 train, 11 dev"),
    "a title above a sheet": Layout(workbook(Rows=[["Survey of May", "", ""], ["text", "label", "who"], *([opinion(n), mood(n), f"p{n}"] for n in ROWS)]), "class text=text,label=label", MOODS, said="line 1 of book.xlsx is a title"),
    "the words of a text beside it": Layout(jsonl("words.jsonl", lambda n: {"text": opinion(n), "tokens": opinion(n).split(), "label": mood(n)}), "class text=text,label=label", MOODS),
    "doccano, several classes in a CSV": Layout(csv("all.csv", "id,text,label", lambda n: [n, sentence(n), "#".join(topics(n))]), "labels text=text,labels=label", sorted(TOPICS)),
    "tecoholic's NER annotator": Layout(document("annotations.json", {"classes": ["PER", "LOC"], "annotations": rows_of(lambda n: [(m := marked(n, triple))[0], {"entities": m[1]}])}), "tags words=words,tags=tags", ENTITIES),
    "classes with a slash": Layout(csv("news.csv", "text,label", lambda n: [sentence(n), ["Sci/Tech", "World", "Sports"][n % 3]]), "class text=text,label=label", ("Sci/Tech", "Sports", "World")),
    # Files with one word per line.
    "CoNLL-U, odd words": Layout(text_file("x.conllu", "\n".join(map(conllu_odd, ROWS))), "tags words=2,tags=4", ("NOUN", "VERB"), "48 train, 12 dev", "accuracy"),
    "CoNLL-X": Layout(columns("x.conll", lambda k, w, t: f"{k}\t{w}\t_\t{'N' if k % 2 else 'V'}\t{'NN' if k % 2 else 'VB'}\t_\t0\tROOT\t_\t_"), "tags words=2,tags=4", ("N", "V"), "48 train, 12 dev"),
    "CoNLL-2009": Layout(columns("x.conll", lambda k, w, t: f"{k}\t{w}\t{w.lower()}\t{w.lower()}\t{'N' if k % 2 else 'V'}\t{'NN' if k % 2 else 'VB'}\t_\t_\t0\t0\tROOT\tROOT\t_\t_"), "asks words=2,tags=5 or words=2,tags=6"),
    "CoNLL-2000": Layout(columns("chunks.txt", lambda k, w, t: f"{w} {'NN' if k % 2 else 'VB'} {t}"), "tags words=1,tags=3", ENTITIES, "48 train, 12 dev"),
    "MultiCoNER": Layout(columns("en.conll", lambda k, w, t: f"{w} _ _ {t}", lambda n: f"# id 5239d808-{n} domain=en\n"), "tags words=1,tags=4", ENTITIES, "48 train, 12 dev", "are read as comments: 60"),
    "GermEval": Layout(columns("ner.tsv", lambda k, w, t: f"{k}\t{w}\t{t}\t{'B-OTH' if k == 6 else 'O'}", lambda n: f"#\thttp://x/{n}\t[2009-10-17]\n"), "asks words=2,tags=3 or words=2,tags=4"),
    "BILOU": Layout(text_file("x.conll", "\n".join("".join(f"{w}\t{t}\n" for w, t in zip(w, bilou(tags), strict=True)) for w, tags in map(tagged, ROWS))), "tags words=1,tags=2", ENTITIES),
    "tags with an underscore": Layout(columns("x.conll", lambda k, w, t: f"{w} {t.replace('-', '_')}"), "tags words=1,tags=2", ENTITIES, said="B_PER"),
    "tags with their letter behind": Layout(columns("x.conll", lambda k, w, t: f"{w} {'-'.join(reversed(t.split('-')))}"), "tags words=1,tags=2", ENTITIES, said="PER-B"),
    "tags without their letter": Layout(columns("x.conll", lambda k, w, t: f"{w} {t.partition('-')[2] or t}"), "tags words=1,tags=2", ENTITIES, said="neighbours"),
    "a mistyped tag": Layout(text_file("x.conll", "\n".join(map(mistyped, ROWS))), "refuses x.conll line 51 has the tag 'BPER'"),
    "words that are a hash": Layout(columns("x.conll", lambda k, w, t: f"{'#' if k in (1, 4) else w} {t}"), "tags words=1,tags=2", ENTITIES, "48 train, 12 dev"),
    "words that hold blanks": Layout(columns("x.conll", lambda k, w, t: f"{BLANKS[ord(w[0]) % 4] if k == 6 else w}\t{t}"), "tags words=1,tags=2", ENTITIES, "48 train, 12 dev"),
    # Lists and objects in a cell.
    "pandas, lists in a CSV": Layout(csv("tags.csv", "text,tags", lambda n: [sentence(n), str(topics(n))]), "labels text=text,labels=tags", sorted(TOPICS), "48 train, 12 dev"),
    "numpy, lists in a CSV": Layout(csv("tags.csv", "text,tags", lambda n: [sentence(n), numpy_list(topics(n))]), "labels text=text,labels=tags", sorted(TOPICS), "48 train, 12 dev"),
    "JSON lists in a CSV": Layout(csv("tags.csv", "text,tags", lambda n: [sentence(n), json.dumps(topics(n))]), "labels text=text,labels=tags", sorted(TOPICS)),
    "tuples in a CSV": Layout(csv("tags.csv", "text,tags", lambda n: [sentence(n), str(tuple(topics(n)))]), "labels text=text,labels=tags", sorted(TOPICS)),
    "objects in a CSV": Layout(csv("marks.csv", "text,marks", lambda n: [sentence(n), str({"toxic": n % 2, "rude": int(n % 3 == 0)})]), "labels text=text,labels=marks.toxic+marks.rude", ("marks.toxic", "marks.rude")),
    "words and tags in a CSV": Layout(csv("ner.csv", "id,tokens,ner_tags", lambda n: [n, *map(str, tagged(n))]), "tags words=tokens,tags=ner_tags", ENTITIES, "48 train, 12 dev"),
    "Kaggle's ner.csv": Layout(csv("ner.csv", "Sentence #,Sentence,POS,Tag", lambda n: [f"Sentence: {n + 1}", " ".join(tagged(n)[0]), str(["NN"] * 6), str(tagged(n)[1])]), "tags words=Sentence,tags=Tag", ENTITIES, "48 train, 12 dev"),
    "words and tags with commas": Layout(csv("grouped.csv", "sentence_id,words,labels", lambda n: [n, *(",".join(part) for part in tagged(n))]), "refuses no column of grouped.csv can be a label"),
    "words and tags with blanks": Layout(csv("slots.csv", "sentence,slots", lambda n: [" ".join(part) for part in tagged(n)]), "tags words=sentence,tags=slots", ENTITIES, "48 train, 12 dev"),
    # Libraries.
    "Hugging Face, Parquet with names": Layout(named_parquet, "class text=text,label=label", MOODS, "48 train, 12 dev, 20 test"),
    "Hugging Face, Parquet with names of tags": Layout(named_tags, "tags words=tokens,tags=ner_tags", ENTITIES, "48 train, 12 dev"),
    "Hugging Face, save_to_disk": Layout(saved_to_disk, "class text=text,label=label", MOODS, "32 train, 8 dev, 20 test"),
    "Hugging Face, to_csv with an index": Layout(csv("set.csv", ",text,label", lambda n: [n, opinion(n), mood(n)]), "class text=text,label=label", MOODS),
    "Hugging Face, rows of the server": Layout(document("rows.json", {"features": [{"name": "text"}], "rows": rows_of(lambda n: {"row_idx": n, "row": {"text": opinion(n), "label": mood(n)}, "truncated_cells": []}), "num_rows_total": 60}), "class text=row.text,label=row.label", MOODS),
    **{f"pandas, {orient}": Layout(pandas_json(orient), "class text=text,label=label", MOODS, "48 train, 12 dev") for orient in ("records", "columns", "index", "split", "table")},
    "an object of rows": Layout(document("rows.json", {"data": rows_of(lambda n: {"text": opinion(n), "label": mood(n)})}), "class text=text,label=label", MOODS),
    "objects by key": Layout(document("rows.json", {f"r{n}": {"text": opinion(n), "label": mood(n)} for n in ROWS}), "class text=text,label=label", MOODS),
    "scikit-learn, 20 Newsgroups": Layout(newsgroups, "class text=text,label=label", ("rec.neg", "rec.pos"), "32 train, 8 dev, 20 test"),
    "fastText, several labels": Layout(text_file("train.ft", "".join(f"{' '.join(f'__label__{t}' for t in topics(n))} {sentence(n)}\n" for n in ROWS)), "labels text=text,labels=label", sorted(TOPICS)),
    "libsvm": Layout(text_file("a1a.txt", "".join(f"{n % 2} {n % 7 + 1}:0.5 {n % 5 + 9}:1\n" for n in ROWS)), "refuses a1a.txt"),
    # Tables.
    "Kaggle, train and test": Layout(folder(train__csv=as_csv([["id", "text", "target"], *([n, opinion(n), mood(n)] for n in range(50))]), test__csv=as_csv([["id", "text"], *([n, opinion(n)] for n in range(50, 60))]), sample_submission__csv="id,target\n50,neg\n"), "class text=text,label=target", MOODS, "40 train, 10 dev, 10 test"),
    "flags and a priority": Layout(csv("tickets.csv", "id,text,billing,bug,account,shipping,priority", lambda n: [n, sentence(n), *(int(n % k == 0) for k in (2, 3, 4, 5)), n % 4]), "asks labels=billing+bug+account+shipping"),
    "flags hidden in test": Layout(folder(train__csv=as_csv([["id", "text", "toxic", "obscene"], *([n, sentence(n), n % 2, int(n % 3 == 0)] for n in range(40))]), test__csv=as_csv([["id", "text", "toxic", "obscene"], *([n, sentence(n), -1, -1] for n in range(40, 60))])), "labels text=text,labels=toxic+obscene", ("toxic", "obscene"), "32 train, 8 dev, 20 test"),
    "numbers hidden in test": Layout(folder(train__csv=as_csv([["text", "score"], *([sentence(n), n / 10] for n in range(40))]), test__csv=as_csv([["text", "score"], *([sentence(n), -1] for n in range(40, 60))])), "number text=text,number=score", (), "32 train, 8 dev, 20 test", "0 to 3.9"),
    "tags hidden in test": Layout(folder(train__conll="\n".join("".join(f"{w}\t{t}\n" for w, t in zip(*tagged(n), strict=True)) for n in range(40)), test__conll="\n".join("".join(f"{w}\t\n" for w in tagged(n)[0]) for n in range(40, 50))), "tags words=1,tags=2", ENTITIES, "32 train, 8 dev, 10 test"),
    "Excel in France": Layout(text_file("avis.csv", as_csv([["texte", "sentiment"], *([f"{opinion(n)} \u2013 n\u00b0 {n} \u00ab\u20ac\u00bb\u2026", mood(n)] for n in ROWS)], ";"), "cp1252"), "class text=texte,label=sentiment", MOODS, said="cp1252"),
    "Google Forms": Layout(text_file("answers.csv", as_csv([FORMS.split(","), *([f"1/{1 + n % 28}/2024 10:00:00", opinion(n), mood(n)] for n in ROWS)])), "class text=How would you describe the service that you got from us this time in your own words?,label=Would you come back?", MOODS),
    "Comprehend, several labels": Layout(csv("train.csv", "", lambda n: ["|".join(topics(n)), sentence(n)]), "labels text=2,labels=1", sorted(TOPICS), no_header=True),
    "Azure": Layout(document("project.json", {"projectFileVersion": "2022-05-01", "assets": {"projectKind": "CustomSingleLabelClassification", "documents": rows_of(lambda n: {"location": f"{n}.txt", "language": "en-us", "dataset": "Train", "class": {"category": mood(n)}})}}), "refuses location"),
    "Vertex AI": Layout(jsonl("vertex.jsonl", vertex), "class text=textContent,label=classificationAnnotation.displayName,split=dataItemResourceLabels.aiplatform.googleapis.com/ml_use", MOODS, "36 train, 12 dev, 12 test"),
    "Vertex AI, entities": Layout(jsonl("vertex.jsonl", vertex_spans), "tags words=words,tags=tags", ENTITIES),
    "Rasa": Layout(document("nlu.json", {"rasa_nlu_data": {"common_examples": rows_of(rasa), "regex_features": [], "entity_synonyms": []}}), "asks words=words,tags=tags or text=text,label=intent"),
    "Snips": Layout(document("train_AddToPlaylist_full.json", {"AddToPlaylist": rows_of(snips)}), "tags words=words,tags=tags", ENTITIES),
    "a chat's messages": Layout(jsonl("chat.jsonl", chat), "class text=user,label=assistant", MOODS),
    "quotes in a TSV": Layout(text_file("reviews.tsv", "text\tlabel\n" + "".join(f'{opinion(n)} "so {"it" if n % 3 else chr(34)}\t{mood(n)}\n' for n in ROWS)), "class text=text,label=label", MOODS, "48 train, 12 dev"),
    "a workbook with a cover note": Layout(workbook(About=[["Made by us in May"], ["do not share"]], Rows=[["text", "label"], *([opinion(n), mood(n)] for n in ROWS)]), "class text=text,label=label", MOODS, said="the sheet 'Rows'"),
    "a workbook of splits": Layout(workbook(train=[["text", "label"], *([opinion(n), mood(n)] for n in range(40))], test=[["text", "label"], *([opinion(n), mood(n)] for n in range(40, 60))]), "class text=text,label=label,split=split", MOODS, "32 train, 8 dev, 20 test"),
    "per cent": Layout(csv("rates.csv", "text,rate", lambda n: [sentence(n), f"{n + 0.5}%"]), "number text=text,number=rate", said="0.5 to 59.5"),
    "SNLI without a consensus": Layout(jsonl("snli.jsonl", lambda n: {"sentence1": sentence(n), "sentence2": second(n), "gold_label": "-" if n % 10 == 3 else NLI[n % 3]}), "class text=sentence1,text2=sentence2,label=gold_label", sorted(NLI), "43 train, 11 dev"),
    "labels in two forms": Layout(csv("essen.csv", "text,label", lambda n: [sentence(n), unicode_label(n)]), "class text=text,label=label", ("gem\u00fcse", "obst")),
    "labels in two cases": Layout(csv("cases.csv", "text,label", lambda n: [sentence(n), ["ACCOUNT", "account", "Bug", "bug", "other"][n % 5]]), "class text=text,label=label", ("ACCOUNT", "Bug", "account", "bug", "other"), said="4 labels differ only in case"),
    "one cell that is no number": Layout(csv("prices.csv", "text,price", lambda n: [sentence(n), "unknown" if n == 7 else n + 0.5]), "refuses prices.csv line 9 has 'unknown' in the column 'price'"),
    "a grade that is no number": Layout(csv("stars.csv", "text,stars,lang", lambda n: [sentence(n), "unknown" if n == 7 else 1 + n % 5, ["en", "de"][n % 2]]), "refuses stars.csv line 9 has 'unknown' in the column 'stars'"),
    "labels hidden in test": Layout(split_tables(train=(range(40), labelled_row), test=(range(40, 60), lambda n: [n, opinion(n), -1])), "class text=text,label=label", MOODS, "32 train, 8 dev, 20 test"),
    "a class that only test has": Layout(split_tables(train=(range(40), labelled_row), test=(range(40, 60), lambda n: [n, sentence(n), "odd"] if n == 44 else labelled_row(n))), "class text=text,label=label", ("neg", "odd", "pos"), "32 train, 8 dev, 20 test", "1 row of test has a label that train lacks ('odd'): its prediction counts as wrong"),
    "a class that only dev has": Layout(split_tables(train=(range(40), labelled_row), dev=(range(40, 60), lambda n: [n, sentence(n), "odd"] if n == 44 else labelled_row(n))), "class text=text,label=label", ("neg", "odd", "pos"), "40 train, 20 dev", "1 row of dev has a label that train lacks ('odd'): its prediction counts as wrong"),
    "three texts": Layout(csv("tickets.csv", "subject,description,agent_reply,queue", lambda n: [sentence(n), second(n), sentence(n + 900), mood(n)]), "asks text=subject+description+agent_reply,label=queue"),
    "one text with several labels": Layout(csv("judged.csv", "text,label", lambda n: [sentence(n // 2), mood(n)]), "class text=text,label=label", MOODS, said="30 texts have several labels"),
    # Other layouts.
    "lists of rows": Layout(document("rows.json", rows_of(lambda n: [opinion(n), mood(n)])), "class text=1,label=2", MOODS),
    "an object of splits": Layout(document("rows.json", {name: [{"text": opinion(n), "label": mood(n)} for n in span] for name, span in (("train", range(40)), ("test", range(40, 60)))}), "class text=text,label=label,split=split", MOODS, "32 train, 8 dev, 20 test"),
    "LUIS": Layout(document("luis.json", {"luis_schema_version": "7.0.0", "intents": [{"name": "neg"}, {"name": "pos"}], "entities": [], "utterances": rows_of(lambda n: {"text": opinion(n), "intent": mood(n), "entities": []})}), "class text=text,label=intent", MOODS),
    "GitHub's issues": Layout(jsonl("issues.jsonl", lambda n: {"number": 900 + n, "title": sentence(n), "labels": [{"id": 7, "name": name, "color": f"{len(name)}73a4a", "default": True} for name in topics(n)]}), "asks text=title,labels=labels.name"),
    "Amazon's reviews": Layout(jsonl("reviews.json", lambda n: {"reviewerID": f"A{n}", "asin": f"B{n % 9}", "reviewText": sentence(n), "overall": float(1 + n % 5), "summary": sentence(n, length=4)}), "asks text=reviewText,label=overall or text=reviewText,number=overall"),
    "a sheet with empty columns": Layout(text_file("spam.csv", "v1,v2,,,\n" + "".join(f"{mood(n)},{opinion(n)},,,\n" for n in ROWS)), "class text=v2,label=v1", MOODS),
    "objects of words and tags": Layout(jsonl("tokens.jsonl", lambda n: {"id": n, "tokens": [{"text": w, "ner": t} for w, t in zip(*tagged(n), strict=True)]}), "tags words=tokens.text,tags=tokens.ner", ENTITIES),
    "a status beside labels": Layout(csv("reviewed.csv", "text,label,status", lambda n: [opinion(n), mood(n), "rejected" if n % 7 == 0 else "approved"]), "asks text=text,label=label) or text=text,label=label,verdict=status"),
    "Polish in cp1250": Layout(text_file("oceny.csv", as_csv([["text", "label"], *([f"{opinion(n)} wa\u017cny \u017c\u00f3\u0142ty", mood(n)] for n in ROWS)]), "cp1250"), "refuses oceny.csv line 2"),
    "Russian in cp1251": Layout(text_file("otzyvy.csv", as_csv([["text", "label"], *([f"\u0445\u043e\u0440\u043e\u0448\u0438\u0439 \u0444\u0438\u043b\u044c\u043c {n}", mood(n)] for n in ROWS)]), "cp1251"), "refuses otzyvy.csv line 2"),
    # Questions.
    "SQuAD 2 without titles": Layout(document("own.json", {"version": "v2.0", "data": rows_of(untitled)}), "spans context=context,question=question,answer=answers.text,start=answers.answer_start"),
    "MRQA": Layout(text_file("mrqa.jsonl", as_jsonl([{"header": {"dataset": "X", "split": "train"}}, *rows_of(mrqa)])), "spans context=context,question=question,answer=answers"),
    "SQuAD of the hub, in a CSV": Layout(csv("squad.csv", "context,question,answers", lambda n: [(p := passage(n))[0], p[1], f"{{'text': array(['{p[2]}'], dtype=object), 'answer_start': array([{p[0].index(p[2])}], dtype=int32)}}"]), "spans context=context,question=question,answer=answers.text,start=answers.answer_start"),
    "an answer that is no option": Layout(csv("exam.csv", "question,A,B,C,D,answer", lambda n: [sentence(n), *(sentence(n + 1000 + k, length=3) for k in range(4)), "E" if n == 7 else "ABCD"[n % 4]]), "refuses exam.csv line 9 has the answer 'E'"),
    "options counted from 1": Layout(jsonl("exam.jsonl", lambda n: {"question": sentence(n), "options": [sentence(n + 1000 + k, length=3) for k in range(4)], "answer": 1 + n % 4}), "choice question=question,options=options,answer=answer", said="the answers in 'answer' count the options from 1"),
    "a key twice": Layout(text_file("twice.jsonl", as_jsonl([{"text": opinion(n), "label": mood(n)} for n in ROWS]) + '{"text": "likepos a b", "label": "pos", "label": "neg"}\n'), "refuses twice.jsonl line 61 names the column 'label' twice"),
    "texts and lists in one column": Layout(jsonl("mixed.jsonl", lambda n: {"text": sentence(n), "answers": "x" if n == 7 else [{"text": "y", "answer_start": 1}], "label": mood(n)}), "refuses mixed.jsonl line 8 has a text in the column 'answers'"),
}  # fmt: skip
