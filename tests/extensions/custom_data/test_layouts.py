# ruff: noqa: E501  (a layout is a line)
"""Files in the layouts of well-known data sets, and damaged files.

A layout expects "KIND COLUMNS" if it is read, "asks COLUMNS or COLUMNS" if it fits several tasks,
and "refuses WORDS" if it is an error; then the labels and the sizes of the splits.
"""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.custom_data.task import OwnData, define
from benchharness.tasks.examples import PairExample, TagExample
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from tests.helpers.common_layouts import COMMON
from tests.helpers.layouts import (
    ENTITIES,
    NLI,
    ROWS,
    Layout,
    conll,
    conllu,
    csv,
    doccano,
    doccano_relations,
    folder,
    jsonl,
    kaggle_ner,
    label_studio,
    label_studio_spans,
    packed,
    parquet,
    prodigy,
    tree,
    workbook,
    zipped,
)
from tests.helpers.messy_layouts import MESSY
from tests.helpers.own_files import (
    GOOD,
    TABLE,
    TWO,
    WORD_ROWS,
    as_csv,
    as_jsonl,
    exam,
    labelled,
    passage,
    second,
    sentence,
    squad,
    tagged,
    text_file,
)
from tests.helpers.public_layouts import PUBLIC
from tests.helpers.tool_layouts import TOOLS

LAYOUTS = {
    # Pairs of texts.
    "SciTail": Layout(
        jsonl("scitail.jsonl", lambda n: {"premise": sentence(n), "hypothesis": sentence(900 + n % 5), "label": NLI[n % 2]}),
        "class text=premise,text2=hypothesis,label=label",
        ("entailment", "neutral"),
    ),
    "low variety, other names": Layout(
        jsonl("pairs.jsonl", lambda n: {"news": sentence(n), "headline": sentence(900 + n % 5), "label": NLI[n % 2]}),
        "asks text=news,label=label or text=news,text2=headline,label=label",
    ),
    "SNLI": Layout(
        jsonl("snli.jsonl", lambda n: {"annotator_labels": [NLI[n % 3]] * 5, "captionID": f"{n // 3}.jpg#1", "gold_label": NLI[n % 3], "pairID": f"{n}.jpg#1r1e", "sentence1": sentence(n), "sentence1_parse": f"(ROOT (S {sentence(n)}))", "sentence2": second(n), "sentence2_parse": f"(ROOT {second(n)})"}),
        "class text=sentence1,text2=sentence2,label=gold_label",
        sorted(NLI),
    ),
    "MNLI": Layout(
        csv("mnli.tsv", "index,promptID,pairID,genre,sentence1_binary_parse,sentence2_binary_parse,sentence1_parse,sentence2_parse,sentence1,sentence2,label1,gold_label", lambda n: [n, n // 3, f"{n}e", ["fiction", "travel"][n % 2], f"( {sentence(n)} )", f"( {second(n)} )", f"(ROOT {sentence(n)})", f"(ROOT {second(n)})", sentence(n), second(n), NLI[n % 3], NLI[n % 3]], "\t"),
        "class text=sentence1,text2=sentence2,label=gold_label",
        sorted(NLI),
    ),
    "MRPC": Layout(
        csv("mrpc.txt", "Quality,#1 ID,#2 ID,#1 String,#2 String", lambda n: [n % 2, 7000 + n, 8000 + n, sentence(n), second(n)], "\t"),
        "class text=#1 String,text2=#2 String,label=Quality",
        ("0", "1"),
    ),
    "QQP": Layout(
        csv("quora.tsv", "id,qid1,qid2,question1,question2,is_duplicate", lambda n: [n, 2 * n, 2 * n + 1, sentence(n), second(n), n % 2], "\t"),
        "class text=question1,text2=question2,label=is_duplicate",
        ("0", "1"),
    ),
    "STS-B without a header": Layout(
        csv("sts-train.csv", "", lambda n: ["main-captions", "MSRvid", "2012test", f"{n:04}", f"{n % 26 / 5:.3f}", sentence(n), second(n)], "\t"),
        "refuses --no-header",
    ),
    "STS-B, by its columns": Layout(
        csv("sts.csv", "", lambda n: ["main-captions", "MSRvid", "2012test", f"{n:04}", f"{n % 26 / 5:.3f}", sentence(n), second(n)], "\t"),
        "asks text=6,number=5 or text=6,text2=7,number=5",
        no_header=True,
    ),
    # Single texts.
    "SST": Layout(csv("sst.tsv", "sentence,label", lambda n: [f"{sentence(n)} ", n % 2], "\t"), "class text=sentence,label=label", ("0", "1")),
    "CoLA without a header": Layout(csv("cola.tsv", "", lambda n: ["gj04", n % 2, "" if n % 2 else "*", sentence(n)], "\t"), "class text=4,label=2", ("0", "1"), "48 train, 12 dev", "line 1 of cola.tsv is a row instead of column names"),
    "CoLA, by its columns": Layout(
        csv("cola.tsv", "", lambda n: [["gj04", "bc01"][n % 3 == 0], n % 2, "" if n % 2 else "*", sentence(n)], "\t"),
        "asks text=4,label=1 or text=4,label=2",
        no_header=True,
    ),
    "IMDB": Layout(
        tree(train__pos=[sentence(n) for n in range(30)], train__neg=[sentence(n) for n in range(30, 60)], train__unsup=[sentence(n) for n in range(60, 80)], test__pos=[sentence(n) for n in range(80, 90)], test__neg=[sentence(n) for n in range(90, 100)]),
        "class text=text,label=label",
        ("neg", "pos"),
        "48 train, 12 dev, 20 test",
    ),
    "one folder a class": Layout(tree(ham=[sentence(n) for n in range(30)], spam=[sentence(n) for n in range(30, 60)]), "class text=text,label=label", ("ham", "spam"), "48 train, 12 dev"),
    "AG news without a header": Layout(csv("ag.csv", "", lambda n: [1 + n % 4, sentence(n, length=5), sentence(n + 500)]), "class text=2,text2=3,label=1", ("1", "2", "3", "4"), "48 train, 12 dev", "line 1 of ag.csv is a row instead of column names"),
    "AG news, by its columns": Layout(
        csv("ag.csv", "", lambda n: [1 + n % 4, sentence(n, length=5), sentence(n + 500)]),
        "class text=2,text2=3,label=1",
        ("1", "2", "3", "4"),
        no_header=True,
    ),
    "Yelp without a header": Layout(csv("yelp.csv", "", lambda n: [1 + n % 2, sentence(n)]), "class text=2,label=1", ("1", "2"), no_header=True),
    "DBpedia": Layout(
        csv("dbpedia.csv", "label,title,content", lambda n: [f"Class{n % 4}", f"Thing {n} of it", sentence(n)]),
        "class text=title,text2=content,label=label",
        sorted(f"Class{n}" for n in range(4)),
    ),
    "TREC": Layout(
        csv("trec.csv", "text,coarse_label,fine_label", lambda n: [sentence(n), ["DESC", "HUM"][n % 2], ["DESC:def", "HUM:ind", "DESC:manner"][n % 3]]),
        "asks text=text,label=coarse_label or text=text,label=fine_label",
    ),
    "Banking77": Layout(csv("banking.csv", "text,category", lambda n: [sentence(n), f"card_{n % 12}"]), "class text=text,label=category", sorted(f"card_{n}" for n in range(12))),
    "GoEmotions": Layout(
        csv("emotions.tsv", "", lambda n: [sentence(n), "3,27" if n == 7 else "27,3,1" if n == 9 else [3, 27, 1][n % 3], f"eebbqe{n}"], "\t"),
        "labels text=1,labels=2",
        ("1", "3", "27"),
        no_header=True,
    ),
    "toxic comments": Layout(
        csv("toxic.csv", "id,comment_text,toxic,obscene,threat", lambda n: [f"00a{n}", sentence(n), n % 2, int(n % 3 == 0), int(n % 5 == 0)]),
        "labels text=comment_text,labels=toxic+obscene+threat",
        ("toxic", "obscene", "threat"),
    ),
    "a|b and empty cells": Layout(
        csv("topics.csv", "text,labels", lambda n: [sentence(n), "|".join(w for k, w in enumerate(("billing", "bug", "feature", "other")) if n >> k & 1)]),
        "labels text=text,labels=labels",
        ("billing", "bug", "feature", "other"),
        "48 train, 12 dev",
        "rows of train have no label",
    ),
    "fastText": Layout(text_file("cooking.txt", "".join(f"__label__{'sweet' if n % 2 else 'sour'} {sentence(n)}\n" for n in ROWS)), "class text=text,label=label", ("sour", "sweet")),
    "lists of labels": Layout(GOOD["lists of labels"].write, "labels text=plot,labels=genres", ("comedy", "crime", "drama")),
    "a number for two": Layout(GOOD["a number for two"].write, "number text=sentence1,text2=sentence2,number=similarity"),
    "stars": Layout(text_file("stars.csv", as_csv([["review", "stars"], *labelled([1, 2, 3, 4, 5])])), "asks text=review,label=stars or text=review,number=stars"),
    "one of three columns": Layout(csv("hot.csv", "text,red,green,blue", lambda n: [sentence(n), *(int(n % 3 == k) for k in range(3))]), "asks text=text,label=red+green+blue or text=text,labels=red+green+blue"),
    # Tags.
    "a mark and a document": Layout(GOOD["conll"].write, "tags words=1,tags=2", ENTITIES),
    "lists of tags": Layout(GOOD["lists of tags"].write, "tags words=tokens,tags=ner_tags", ENTITIES),
    "a row a word": Layout(text_file("words.csv", as_csv([["sentence_id", "word", "tag"], *WORD_ROWS])), "tags sentence=sentence_id,words=word,tags=tag", ENTITIES),
    "Kaggle's NER": Layout(kaggle_ner("ner_dataset.csv", lambda n, place: "" if place else f"Sentence: {n + 1}"), "tags sentence=Sentence #,words=Word,tags=Tag", ENTITIES, "48 train, 12 dev"),
    "CoNLL-2003": Layout(conll("eng.conll", " ", "NNP", "I-NP"), "tags words=1,tags=4", ENTITIES),
    "CoNLL-2002": Layout(conll("esp.train", " "), "tags words=1,tags=2", ENTITIES),
    "WNUT": Layout(conll("wnut17.conll", "\t"), "tags words=1,tags=2", ENTITIES),
    "words without sentences": Layout(csv("words.csv", "word,tag", lambda n: [sentence(n).split()[0], ["O", "B-PER"][n % 2]]), "refuses sentence"),
    "doccano, offsets": Layout(jsonl("doccano.jsonl", doccano), "tags words=words,tags=tags", ENTITIES),
    "doccano, entities": Layout(jsonl("admin.jsonl", doccano_relations), "tags words=words,tags=tags", ENTITIES),
    "doccano, classes": Layout(jsonl("all.jsonl", lambda n: {"id": n, "text": sentence(n), "label": [["good", "bad"][n % 2]]}), "class text=text,label=label", ("bad", "good")),
    "Label Studio, choices": Layout(text_file("export.json", json.dumps([label_studio(n) for n in ROWS])), "class text=text,label=mood", ("Neg", "Pos")),
    "Label Studio, entities": Layout(text_file("export.json", json.dumps([label_studio_spans(n) for n in ROWS])), "tags words=words,tags=tags", ENTITIES),
    # Options and spans.
    "ARC": Layout(
        jsonl("arc.jsonl", lambda n: {"id": f"M_{n}", "question": {"stem": exam(n)[0], "choices": [{"text": t, "label": "ABCD"[k]} for k, t in enumerate(exam(n)[1])]}, "answerKey": "ABCD"[n % 4]}),
        "choice question=question.stem,options=question.choices.text,answer=answerKey",
    ),
    "MMLU without a header": Layout(csv("mmlu.csv", "", lambda n: [exam(n)[0], *exam(n)[1], "ABCD"[n % 4]]), "choice question=1,options=2+3+4+5,answer=6", (), "48 train, 12 dev"),
    "MMLU, by its columns": Layout(csv("mmlu.csv", "", lambda n: [exam(n)[0], *exam(n)[1], "ABCD"[n % 4]]), "choice question=1,options=2+3+4+5,answer=6", no_header=True),
    "HellaSwag": Layout(
        jsonl("swag.jsonl", lambda n: {"ind": n, "activity_label": "Roof", "ctx_a": exam(n)[0], "ctx_b": "he", "ctx": f"{exam(n)[0]} he", "split": "train", "split_type": "indomain", "label": n % 4, "endings": exam(n)[1], "source_id": f"a~{n}"}),
        "choice question=ctx,options=endings,answer=label",
    ),
    "CommonsenseQA": Layout(
        jsonl("csqa.jsonl", lambda n: {"id": f"x{n}", "question": exam(n)[0], "question_concept": "c", "choices": {"label": list("ABCD"), "text": exam(n)[1]}, "answerKey": "ABCD"[n % 4]}),
        "choice question=question,options=choices.text,answer=answerKey",
    ),
    "SQuAD": Layout(text_file("dev-v1.1.json", json.dumps({"version": "1.1", "data": [squad(n) for n in ROWS]})), "spans context=context,question=question,answer=answers.text,start=answers.answer_start"),
    "answers without places": Layout(jsonl("answers.jsonl", lambda n: dict(zip(("context", "question", "answer"), passage(n), strict=True))), "spans context=context,question=question,answer=answer"),
    "a list of options": Layout(GOOD["a list of options"].write, "choice question=question,options=options,answer=answer"),
    "a column an option": Layout(csv("wide.csv", "question,A,B,C,D,answer", lambda n: [exam(n)[0], *exam(n)[1], "ABCD"[n % 4]]), "choice question=question,options=A+B+C+D,answer=answer"),
    "a row an option": Layout(
        text_file("rows.csv", as_csv([["question", "candidate", "label"], *([exam(n)[0], option, int(place == n % 4)] for n in ROWS for place, option in enumerate(exam(n)[1]))])),
        "asks question=question,option=candidate,label=label or text=question,text2=candidate,label=label",
    ),
    "Natural Questions": Layout(
        jsonl("nq.jsonl", lambda n: {"example_id": n, "question_text": "who", "document_text": passage(n)[0], "annotations": [{"yes_no_answer": "NONE", "short_answers": [{"start_token": 5, "end_token": 7}]}], "long_answer_candidates": []}),
        "refuses --columns",
    ),
    # File formats.
    "an Excel workbook": Layout(workbook, "class text=text,label=label", ("0", "1")),
    "gz": Layout(packed("x.csv", as_csv([["text", "label"], *([sentence(n), n % 2] for n in ROWS)]), ".csv.gz"), "class text=text,label=label", ("0", "1")),
    "zip": Layout(packed("x.jsonl", as_jsonl([{"text": sentence(n), "label": n % 2} for n in ROWS]), ".zip"), "class text=text,label=label", ("0", "1")),
    "tabs in a .csv": Layout(csv("tabs.csv", "text,label", lambda n: [f"{sentence(n)}, {'so, ' * (n % 3)}yes", n % 2], "\t"), "class text=text,label=label", ("0", "1")),
    "semicolons and decimal commas": Layout(csv("preise.csv", "text,price", lambda n: [sentence(n), f"{n},5"], ";"), "number text=text,number=price", said="0.5 to 59.5"),
    "dollars": Layout(csv("prices.csv", "text,price", lambda n: [sentence(n), f"${1000 + n:,}.50"]), "number text=text,number=price", said="1000.5 to 1059.5"),
    "a split column": Layout(
        csv("parts.csv", "text,label,split", lambda n: [sentence(n), n % 2, ("validation" if n % 5 == 3 else "test") if n % 5 > 2 else "train"]),
        "class text=text,label=label,split=split",
        ("0", "1"),
        "36 train, 12 dev, 12 test",
    ),
    "a split column of other names": Layout(csv("parts.csv", "text,label,split", lambda n: [sentence(n), n % 2, ["train", "mine"][n % 5 == 3]]), "refuses 'mine'"),
    "semicolons and cp1252": Layout(GOOD["semicolons and cp1252"].write, "class text=Kommentar,label=Urteil", ("gut", "mäßig", "schlecht")),
    "utf-16 and tabs": Layout(text_file("topics.tsv", as_csv([["id", "sentence", "label"], *([n, t, x] for n, (t, x) in enumerate(labelled([0, 1, 2, 3])))], "\t"), "utf-16"), "class text=sentence,label=label", ("0", "1", "2", "3")),
    "quoted newlines": Layout(text_file("long.csv", as_csv([["id", "review", "sentiment"], *([n, f'{t}\nhe said "so", twice\n', x] for n, (t, x) in enumerate(TWO))]), "utf-8-sig"), "class text=review,label=sentiment", ("neg", "pos")),
    "missing values": Layout(text_file("gaps.jsonl", as_jsonl([{"text": t, "label": None if n in (3, 9) else x} for n, (t, x) in enumerate(labelled([0, 1]))])), "class text=text,label=label", ("0", "1")),
    "groups": Layout(text_file("grouped.csv", as_csv([["text", "label", "user_id"], *([t, x, f"user{n // 3}"] for n, (t, x) in enumerate(TWO))])), "class text=text,label=label,group=user_id", ("neg", "pos")),
    "a folder with a test split": Layout(
        folder(train__csv=as_csv([["text", "label"], *TWO[:40]]), validation__csv=as_csv([["text", "label"], *TWO[40:]]), test__csv=as_csv([["text"], *([sentence(n)] for n in range(900, 910))]), README__md="about"),
        "class text=text,label=label",
        ("neg", "pos"),
        "40 train, 20 dev, 10 test",
    ),
    "CoLA's splits in a folder": Layout(
        folder(train__tsv=as_csv([["gj04", n % 2, "", sentence(n)] for n in range(40)], "\t"), dev__tsv=as_csv([["gj04", n % 2, "", sentence(n)] for n in range(40, 60)], "\t")),
        "class text=4,label=2",
        ("0", "1"),
        "40 train, 20 dev",
        no_header=True,
    ),
}  # fmt: skip


# These layouts were added after the detection was written, and were not used to develop it.
KEPT_ASIDE = {
    "BoolQ": Layout(jsonl("boolq.jsonl", lambda n: {"question": sentence(n), "title": f"T{n}", "answer": n % 2 == 0, "passage": second(n)}), "class text=question,text2=passage,label=answer", ("false", "true")),
    "PAWS": Layout(csv("paws.tsv", "id,sentence1,sentence2,label", lambda n: [n + 1, sentence(n), second(n), n % 2], "\t"), "class text=sentence1,text2=sentence2,label=label", ("0", "1")),
    "SICK": Layout(csv("SICK.txt", "pair_ID,sentence_A,sentence_B,relatedness_score,entailment_judgment", lambda n: [n, sentence(n), second(n), 1 + n % 40 / 10, NLI[n % 3].upper()], "\t"), "asks number=relatedness_score or label=entailment_judgment"),
    "Universal Dependencies": Layout(text_file("en_ewt-ud.conllu", "\n".join(map(conllu, ROWS))), "tags words=2,tags=4", ("NOUN", "VERB")),
    "SMS spam": Layout(csv("SMSSpamCollection.txt", "", lambda n: ["ham" if n % 3 else "spam", f"{sentence(n)}, \"so"], "\t"), "class text=2,label=1", ("ham", "spam"), "48 train, 12 dev"),
    "Sentiment140": Layout(csv("s140.csv", "", lambda n: [n % 2 * 4, 1467810369 + n, "Mon Apr 06 22:19:45 PDT 2009", "NO_QUERY", f"user{n}", sentence(n)]), "class text=6,label=1", ("0", "4"), "48 train, 12 dev"),
    "WinoGrande": Layout(jsonl("winogrande.jsonl", lambda n: {"qID": f"q{n}", "sentence": sentence(n), "option1": f"Ann{n}", "option2": f"Bob{n}", "answer": str(1 + n % 2)}), "choice question=sentence,options=option1+option2,answer=answer", said="the answers in 'answer' count the options from 1"),
    "COPA": Layout(jsonl("copa.jsonl", lambda n: {"premise": sentence(n), "choice1": exam(n)[1][0], "choice2": exam(n)[1][1], "question": ["cause", "effect"][n % 2], "label": n % 2, "idx": n}), "choice context=premise,question=question,options=choice1+choice2,answer=label"),
    "RACE": Layout(jsonl("race.jsonl", lambda n: {"answers": ["A", "B"], "options": [exam(n)[1], exam(n + 1)[1]], "questions": ["what", "who"], "article": sentence(n, length=40), "id": f"h{n}.txt"}), "asks labels=answers or labels=questions"),
    "Reuters": Layout(csv("reuters.csv", "text,topics", lambda n: [sentence(n), ["grain;wheat", "earn", "grain", "wheat"][n % 4]]), "labels text=text,labels=topics", ("earn", "grain", "wheat")),
    "a line that names the separator": Layout(text_file("excel.csv", "sep=;\n" + as_csv([["text", "label"], *([sentence(n), n % 2] for n in ROWS)], ";")), "class text=text,label=label", ("0", "1")),
    "Prodigy": Layout(jsonl("ner.jsonl", prodigy), "tags words=words,tags=tags", ENTITIES),
    "Label Studio, JSON-MIN": Layout(text_file("min.json", json.dumps([{"id": n, "text": sentence(n), "topic": {"choices": ["a", "b"]} if n % 3 == 0 else "ab"[n % 2], "annotator": 1} for n in ROWS])), "labels text=text,labels=topic", ("a", "b")),
    "a parquet of the hub": Layout(parquet("train.parquet", {"text": list(map(sentence, ROWS)), "label": [n % 3 for n in ROWS]}), "class text=text,label=label", ("0", "1", "2")),
    "tags as numbers": Layout(parquet("train.parquet", {"id": list(map(str, ROWS)), "tokens": [tagged(n)[0] for n in ROWS], "ner_tags": [[0, 1, 2, 0, 3 * (n % 2), 0] for n in ROWS]}), "tags words=tokens,tags=ner_tags", ("0", "1", "2", "3")),
    "tickets": Layout(csv("tickets.csv", "ticket_id,created_at,subject,body,priority", lambda n: [n, f"2024-01-{1 + n % 9:02}", sentence(n, length=5), sentence(n + 300), ["low", "high"][n % 2]]), "class text=subject,text2=body,label=priority", ("high", "low")),
    "NSMC": Layout(csv("ratings.txt", "id,document,label", lambda n: [9976970 + n, sentence(n), n % 2], "\t"), "class text=document,label=label", ("0", "1")),
    "thousands with points": Layout(csv("mieten.csv", "Beschreibung,Miete", lambda n: [sentence(n), f"{1 + n % 3}.{100 + n},50 €"], ";"), "number text=Beschreibung,number=Miete", said="1100.5 to "),
    "a set column in capitals": Layout(csv("sets.csv", "text,label,Set", lambda n: [sentence(n), n % 2, ["Train", "Train", "Train", "Valid", "Test"][n % 5]]), "class text=text,label=label,split=Set", ("0", "1"), "36 train, 12 dev, 12 test"),
    "MASSIVE": Layout(jsonl("en-US.jsonl", lambda n: {"id": str(n), "locale": "en-US", "partition": ["train", "dev", "test"][n % 3], "scenario": ["alarm", "play"][n % 2], "intent": ["alarm_set", "play_music"][n % 2], "utt": sentence(n), "annot_utt": f"{sentence(n)} [x : y]"}), "asks text=utt,label=intent,split=partition"),
    "a zip of a folder": Layout(zipped, "class text=utterance,label=intent", ("ask", "tell"), "32 train, 8 dev, 20 test"),
    "TREC's own lines": Layout(text_file("train_5500.txt", "".join(f"{['DESC:manner', 'HUM:ind'][n % 2]} {sentence(n)} ?\n" for n in ROWS)), "refuses column"),
}  # fmt: skip


def sparse(place: Path) -> Path:
    """Write a sparse file of ten gigabytes."""
    (place / "huge.csv").write_text(TABLE)
    os.truncate(place / "huge.csv", 10_000_000_000)
    return place / "huge.csv"


def binary(name: str, begin: bytes):
    return text_file(name, begin + bytes(range(256)) * 8)


DAMAGED = {
    "empty": Layout(text_file("empty.csv", ""), "refuses empty.csv is empty"),
    "a header alone": Layout(text_file("head.csv", "text,label\n"), "refuses head.csv has no rows below line 1"),
    "a ragged line": Layout(text_file("ragged.csv", TABLE + "one,two,three\n"), "refuses ragged.csv line 62 has 3 fields"),
    "an open quote": Layout(text_file("open.csv", TABLE + '"never closed,pos\nmore,neg\n'), "refuses open.csv line 62 column 1 opens a quote"),
    "a picture": Layout(binary("picture.csv", b"\x89PNG\r\n\x1a\n"), "refuses picture.csv is a PNG picture"),
    "a workbook of no such name": Layout(binary("book.csv", b"PK\x03\x04"), "refuses book.csv is a zip archive or an Excel workbook"),
    "broken JSON": Layout(text_file("broken.jsonl", as_jsonl([{"text": "a", "label": 1}] * 2) + '{"text": "b" "label": 0}\n'), "refuses broken.jsonl line 3 column 14"),
    "one class": Layout(text_file("one.csv", as_csv([["text", "label"], *([t, "same"] for t, _ in TWO)])), "refuses one label, 'same'"),
    "a name twice": Layout(text_file("twice.csv", as_csv([["text", "label", "text"], *([t, x, t] for t, x in TWO)])), "refuses line 1 names the column 'text' twice"),
    "a word without a tag": Layout(text_file("hole.conll", "Anna B-PER\nsleeps\n\n"), "refuses hole.conll line 2 has 1 field"),
    "ten gigabytes": Layout(sparse, "refuses huge.csv has 10.0 GB"),
    "no question": Layout(text_file("hole.json", '{"data": [{"title": "t", "paragraphs": [{"context": "c"}]}]}'), "refuses paragraph 0 has no 'qas'"),
    "damaged parquet": Layout(binary("rows.parquet", b"PAR1"), "refuses rows.parquet is not a valid Parquet file"),
    "no label": Layout(text_file("texts.csv", as_csv([["text"], *([t] for t, _ in TWO)])), "refuses no column of texts.csv can be a label"),
    "an infinite number": Layout(csv("prices.csv", "text,price", lambda n: [sentence(n), n / 4 or "inf"]), "refuses prices.csv line 2 has 'inf' in the column 'price': expected a number"),
    "a row without its tag": Layout(text_file("words.csv", as_csv([["sentence", "word", "tag"], *WORD_ROWS[:180], (30, "Anna", "B-PER"), (30, "sleeps", "")])), "refuses words.csv line 182 has no tag for the word 'sleeps'"),
    "a row without its options": Layout(jsonl("exam.jsonl", lambda n: {"question": exam(n)[0], "options": exam(n)[1] if n else None, "answer": n % 4}), "refuses exam.jsonl line 1 has the answer 0, which matches none of its 0 options"),
    "no names": Layout(text_file("bare.csv", as_csv(TWO)), "class text=1,label=2", ("neg", "pos"), said="line 1 of bare.csv is a row instead of column names"),
}  # fmt: skip

EVERY = LAYOUTS | KEPT_ASIDE | DAMAGED | PUBLIC | MESSY | COMMON | TOOLS


@pytest.mark.parametrize("name", EVERY)
def test_task_in_each_file_layout_is_detected_or_refused_with_the_expected_message(name, tmp_path):
    wanted = EVERY[name]
    if ("workbook" in name or "legend" in name) and name != "a workbook of no such name":
        pytest.importorskip("openpyxl")
    path = str(wanted.write(tmp_path))
    options = {"no_header": True} if wanted.no_header else {}
    what, _, words = wanted.expected.partition(" ")
    if what in ("asks", "refuses"):
        with pytest.raises(DataError) as caught:
            find_own(path, **options)
        said = str(caught.value)
        assert all(word in said for word in words.split(" or "))
        assert "\n" not in said
        assert said.replace("...", "").count(". ") == 0
        assert said.endswith("; choose one." if what == "asks" else ".")
        answers = re.findall(r"\(--columns ([^()]*)\)", said) if what == "asks" else []
        # Each suggested answer is one word in a shell, even if the name of a column has spaces.
        typed = [word for answer in answers for word in shlex.split(answer)]
        found = [find_own(path, columns=answer, **options) for answer in typed]
        assert len({each.own.mapping.words for each in found}) == len(answers) != 1
        assert all(read(each.task, "train", parse_data(each.data)).examples for each in found)
        return
    found = find_own(path, **options)
    assert f"{found.own.kind} {found.own.mapping.words}" == wanted.expected
    assert found.own.labels == tuple(wanted.labels)
    assert wanted.rows in " ".join(found.sentences)
    assert wanted.said in " ".join(found.sentences)
    assert found.leaks == dict.fromkeys(found.leaks, (0, 0))
    # A definition that was converted to JSON and back, as for a worker, reads the same rows.
    sent = json.loads(json.dumps(found.task.definition))
    assert OwnData.from_json(sent) == found.own
    splits = {s: read(define(sent), s, parse_data(found.data)) for s in found.task.source.splits}
    assert splits == {s: read(found.task, s, parse_data(found.data)) for s in splits}
    for example in (e for rows in splits.values() for e in rows.examples if not e.is_hidden):
        check_gold(example, wanted.labels)
    if "hidden in test" in name:
        assert all(example.is_hidden for example in splits["test"].examples)
    train, dev = splits["train"].examples, splits["dev"].examples
    assert len(train) > len(dev) > 5
    assert not {e.id for e in train} & {e.id for e in dev if found.own.held_out}


def check_gold(example, labels):
    """Check labels that the texts name, and tags of people and places."""
    if isinstance(example, TagExample) and tuple(labels) == ENTITIES:
        found = dict(zip(example.words, example.tags, strict=True))
        assert (found["Anna"], found["Meyer"]) == ("B-PER", "I-PER")
        assert found.get("Berlin", "B-LOC") == "B-LOC"
        assert len(found.keys() & {"Anna", "Meyer", "Berlin"}) == len(
            example.tags
        ) - example.tags.count("O")
    elif isinstance(example, PairExample) and isinstance(example.label, str):
        word = example.text_a.split()[0]
        if word in {f"like{label.split()[0]}" for label in labels}:
            assert word == f"like{example.label.split()[0]}"
