"""Tests of challenge sets: official files, merged classes, and agreement with official scripts.

The tests contain reimplementations of the scripts, from the official files to the printed numbers.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sklearn.metrics import accuracy_score, f1_score

from benchharness.errors import BenchError, DataError
from benchharness.extensions.robustness.measure import accuracy_by_category, scored_set
from benchharness.extensions.robustness.rows import is_found, read_set
from benchharness.extensions.robustness.sets import CHALLENGE_SETS, named_sets
from benchharness.tasks.examples import PairPrediction, SpanPrediction
from benchharness.tasks.glue import NLI_LABELS
from benchharness.tasks.sources import Data, parse_data
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tasks.task import score
from tests.helpers.squad_oracle import added, f1, words

NLI_LINES = [
    {"sentence1": f"The guest in room {n} sang.", "sentence2": f"Guest {n} sang.", "gold_label": g}
    for n, g in enumerate([*NLI_LABELS, "-", *NLI_LABELS])
]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_hans(folder, rows=96):
    """Write a file in the layout of HANS, and return its rows as dictionaries."""
    columns = ("gold_label", "sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse",
               "sentence2_parse", "sentence1", "sentence2", "pairID", "heuristic", "subcase",
               "template")  # fmt: skip
    heuristics = ("lexical_overlap", "subsequence", "constituent")
    made = []
    for n in range(rows):
        values = ("entailment" if n % 2 else "non-entailment", "( A )", "( B )", "(S A)", "(S B)",
                  f"The doctor near actor {n} danced .", f"Actor {n} danced .", f"ex{n}",
                  heuristics[n // 2 % 3], f"case{n // 2 % 3}{n % 4}", f"temp{n % 7}")  # fmt: skip
        made.append(dict(zip(columns, values, strict=True)))
    lines = ["\t".join(columns), *("\t".join(row.values()) for row in made)]
    write(folder / "heuristics_evaluation_set.txt", "\n".join(lines) + "\n")
    return made


def rows_of(name, folder, limit=None):
    return read_set(CHALLENGE_SETS[name], parse_data(str(folder)), limit)


def scores_of(name, rows, predictions, task):
    """Return the scores of a single run on a challenge set, by the model of a task."""
    split = scored_set(rows, CHALLENGE_SETS[name].merged(find_task(task)), (tuple(predictions),))
    return score(split.task, split.split, split.one[0], split.examples)


def labelled(rows, labels):
    pairs = zip(rows.rows.examples, labels, strict=True)
    return [PairPrediction(id=example.id, label=label) for example, label in pairs]


# HANS: evaluate_heur_output.py.


def hans_script(data_file, prediction_file):
    """Return the numbers that HANS' script prints, keyed by section and name."""
    guesses = {}
    for line in prediction_file.read_text().splitlines()[1:]:
        key, label = line.strip().split(",")[:2]
        guesses[key] = "entailment" if label == "entailment" else "non-entailment"
    header, *lines = (line.strip().split("\t") for line in data_file.read_text().splitlines())
    right, count = Counter(), Counter()
    for line in lines:
        row = dict(zip(header, line, strict=True))
        gold = row["gold_label"]
        keys = [(gold, row["heuristic"]), ("subcase", row["subcase"])]
        for key in [*keys, ("template", row["template"])]:
            count[key] += 1
            right[key] += guesses[row["pairID"]] == gold
    return {key: right[key] / count[key] for key in count}


def hans_predictions():
    draw = Random(5)
    yield "drawn", lambda n: draw.choice(NLI_LABELS)
    for label in NLI_LABELS:
        yield f"always {label}", lambda n, label=label: label
    yield "not a label", lambda n: ("Entailment", "", "entailments", "neutral")[n % 4]
    yield "alternating", lambda n: NLI_LABELS[n % 2]


@pytest.mark.parametrize("kind", [name for name, _ in hans_predictions()])
def test_hans_scores_equal_the_official_script(kind, tmp_path):
    made = write_hans(tmp_path)
    labels = [dict(hans_predictions())[kind](n) for n in range(len(made))]
    lines = [f"{row['pairID']},{label}" for row, label in zip(made, labels, strict=True)]
    predicted = tmp_path / "predictions.txt"
    write(predicted, "\n".join(("pairID,gold_label", *lines)))
    wanted = hans_script(tmp_path / "heuristics_evaluation_set.txt", predicted)
    rows = rows_of("hans", tmp_path)
    split = scored_set(
        rows, CHALLENGE_SETS["hans"].merged(find_task("glue/mnli")), (labelled(rows, labels),)
    )
    found = score(split.task, split.split, split.one[0], split.examples)
    for heuristic in ("lexical_overlap", "subsequence", "constituent"):
        for gold, ending in (("entailment", "entailed"), ("non-entailment", "non_entailed")):
            assert found[f"accuracy_{heuristic}_{ending}"] == wanted[gold, heuristic]
    slices = accuracy_by_category(split)
    for (section, name), value in wanted.items():
        if section in ("subcase", "template"):
            assert slices[f"{section} {name}"] == value


def test_two_class_models_with_other_class_names_are_scored_on_hans(tmp_path):
    write_hans(tmp_path, 12)
    rows = rows_of("hans", tmp_path)
    golds = ["not_entailment", "entailment"] * 6
    assert scores_of("hans", rows, labelled(rows, golds), "glue/rte")["accuracy"] == 1.0
    assert scores_of("hans", rows, labelled(rows, golds[::-1]), "glue/rte")["accuracy"] == 0.0


# Adversarial SQuAD: eval_squad.py.


def squad_document(draw, questions=12):
    """Return data in the format of adversarial SQuAD, with 0 to 3 adversarial versions each."""
    paragraphs = []
    for n in range(questions):
        context = f"Alma {n} met Bruno in the old town of Vienna in {1900 + n}."
        texts = (f"{1900 + n}", f"in {1900 + n}")[: 1 + n % 2]
        answers = [{"text": text, "answer_start": context.index(text)} for text in texts]
        asked = f"When did Alma {n} meet Bruno?"
        versions = [("", context)] * (n != 5)  # one question has no original version
        versions += [
            (f"-high-conf-turk{k}", f"{context} Carla {k} met Dora in {1800 + k}.")
            for k in range(draw.randrange(4) if n != 5 else 2)
        ]
        for ending, passage in versions:
            qas = [{"id": f"56{n:03}{ending}", "question": asked, "answers": answers}]
            paragraphs.append({"context": passage, "qas": qas})
    draw.shuffle(paragraphs)
    return {"version": "1.1", "data": [{"title": "Vienna", "paragraphs": paragraphs}]}


def squad_script(document, predictions):
    """Return the four numbers that eval_squad.py prints, from 0 to 1."""
    chosen, original, every = {}, {}, set()
    for article in document["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                key = question["id"].split("-")[0]
                every.add(key)
                if question["id"] not in predictions:
                    continue
                guess = predictions[question["id"]]
                golds = [answer["text"] for answer in question["answers"]]
                now = (
                    max(f1(guess, gold, 0.0) for gold in golds),
                    max(float(words(guess) == words(gold)) for gold in golds),
                )
                if question["id"] == key:
                    original[key] = now
                    chosen.setdefault(key, (key, *now))
                elif key not in chosen or chosen[key][0] == key or chosen[key][1] > now[0]:
                    chosen[key] = (question["id"], *now)
    size = len(every)
    return {
        "orig_f1": added(each[0] for each in original.values()) / size,
        "orig_exact_match": added(each[1] for each in original.values()) / size,
        "adv_f1": added(each[1] for each in chosen.values()) / size,
        "adv_exact_match": added(each[2] for each in chosen.values()) / size,
    }


@pytest.mark.parametrize("seed", range(8))
def test_adversarial_squad_scores_equal_the_official_script(seed, tmp_path):
    draw = Random(seed)
    document = squad_document(draw)
    write(tmp_path / "sample1k-HCVerifyAll.json", json.dumps(document))
    rows = rows_of("addsent", tmp_path)
    guesses = {}
    for example in rows.rows.examples:
        gold = example.answers[0][0]
        near = (gold, f"in {gold}", "Vienna", "1801", "", f"the {gold}", f"{gold} Vienna")
        if draw.random() < 0.85:  # 15 % of the versions have no prediction
            guesses[example.id] = draw.choice(near)
    predictions = [
        SpanPrediction(id=e.id, text=guesses.get(e.id, ""), missing=e.id not in guesses)
        for e in rows.rows.examples
    ]
    found = scores_of("addsent", rows, predictions, "squad/v1.1")
    assert found == pytest.approx(squad_script(document, guesses), abs=1e-12)


# AdvGLUE: evaluate.py, which calls the metrics of GLUE.

ADVGLUE = {
    "sst2": ("glue/sst2", ("sentence",), 2),
    "qqp": ("glue/qqp", ("question1", "question2"), 2),
    "mnli": ("glue/mnli", ("premise", "hypothesis"), 3),
    "mnli-mm": ("glue/mnli", ("premise", "hypothesis"), 3),
    "qnli": ("glue/qnli", ("question", "sentence"), 2),
    "rte": ("glue/rte", ("sentence1", "sentence2"), 2),
}


def write_advglue(folder, rows=24):
    draw = Random(3)
    document = {
        key: [
            {"idx": n, "label": draw.randrange(count)} | {c: f"{c} {n} of {key}" for c in columns}
            for n in range(rows)
        ]
        for key, (_, columns, count) in ADVGLUE.items()
    }
    write(folder / "dev.json", json.dumps(document, indent=2))
    return document


def advglue_script(key, golds, guesses):
    found = {"accuracy": accuracy_score(golds, guesses)}
    return found | ({"f1": f1_score(golds, guesses)} if key == "qqp" else {})


@pytest.mark.parametrize("key", ADVGLUE)
def test_advglue_scores_equal_the_official_script(key, tmp_path):
    document = write_advglue(tmp_path)
    rows, task = rows_of(f"advglue-{key}", tmp_path), find_task(ADVGLUE[key][0])
    golds, count = [row["label"] for row in document[key]], ADVGLUE[key][2]
    first = rows.rows.examples[0]
    texts = [document[key][0][column] for column in ADVGLUE[key][1]]
    assert [first.text_a, first.text_b][: len(texts)] == texts
    draw = Random(4)
    drawn = [[draw.randrange(count) for _ in golds] for _ in range(4)]
    for guesses in (golds, [0] * len(golds), [1] * len(golds), *drawn):
        labels = [task.labels[guess] for guess in guesses]
        found = scores_of(f"advglue-{key}", rows, labelled(rows, labels), task.name)
        assert found == pytest.approx(advglue_script(key, golds, guesses), abs=1e-12)


# The other sets: accuracy, on the rows of their official files.


def test_anli_is_read_from_files_with_the_labels_of_mnli(tmp_path):
    for n in (1, 2, 3):
        lines = [{"uid": f"u{k}", "context": f"C{n}{k}", "hypothesis": f"H{k}", "label": label,
                  "reason": ""} for k, label in enumerate("ecn")]  # fmt: skip
        write(tmp_path / f"anli_v1.0/R{n}/test.jsonl", json_lines(lines))
    for n in (1, 2, 3):
        rows = rows_of(f"anli-r{n}", tmp_path)
        labels = [e.label for e in rows.rows.examples]
        assert labels == ["entailment", "contradiction", "neutral"]
        assert (rows.rows.examples[1].text_a, rows.rows.examples[1].text_b) == (f"C{n}1", "H1")
        two = ["entailment", "not_entailment", "not_entailment"]
        assert scores_of(f"anli-r{n}", rows, labelled(rows, two), "glue/rte") == {"accuracy": 1.0}
        three = ["entailment", "neutral", "neutral"]
        found = scores_of(f"anli-r{n}", rows, labelled(rows, three), "superglue/cb")
        assert found == {"accuracy": pytest.approx(2 / 3)}


def test_snli_hard_skips_rows_without_a_majority_label(tmp_path):
    write(tmp_path / "snli_1.0_test_hard.jsonl", json_lines(NLI_LINES))
    rows = rows_of("snli-hard", tmp_path)
    assert (len(rows.rows.examples), rows.rows.left_out) == (6, 1)
    found = scores_of("snli-hard", rows, labelled(rows, [*NLI_LABELS] * 2), "snli/snli")
    assert found == {"accuracy": 1.0}


def test_mnli_hard_is_read_from_parallel_files(tmp_path):
    parts = {"s1.test": "A\nB\nC\n", "s2.test": "a\nb\nc\n", "labels.test": "\n".join(NLI_LABELS)}
    folder = tmp_path / "MNLIMatchedHardWithHardTest"
    for name, text in parts.items():
        write(folder / name, text)
    found = rows_of("mnli-hard-m", tmp_path).rows.examples
    assert [(e.text_a, e.text_b, e.label) for e in found] == [
        *zip("ABC", "abc", NLI_LABELS, strict=True)
    ]
    write(folder / "s2.test", "a\nb\n")
    with pytest.raises(
        DataError,
        match=r"different numbers of lines \(3 in s1.test, 2 in s2.test, 3 in labels.test",
    ):
        rows_of("mnli-hard-m", tmp_path)
    (folder / "s2.test").unlink()
    with pytest.raises(DataError, match=r"3 in s1.test, 0 in s2.test"):
        rows_of("mnli-hard-m", tmp_path)


def test_hidden_labels_of_the_official_mnli_hard_file_raise_an_error(tmp_path):
    lines = [{**row, "gold_label": "hidden"} for row in NLI_LINES]
    write(tmp_path / "multinli_0.9_test_mismatched_unlabeled_hard.jsonl", json_lines(lines))
    with pytest.raises(BenchError, match="are hidden"):
        rows_of("mnli-hard-mm", tmp_path)


@pytest.mark.parametrize(
    ("name", "file"),
    [("paws-wiki", "paws_wiki_labeled_final/final/test.tsv"), ("paws-qqp", "dev_and_test.tsv")],
)
def test_paws_tests_models_of_qqp_and_mrpc(name, file, tmp_path):
    lines = [f"{n}\tfrom A{n} to B\tfrom B to A{n}\t{n % 2}" for n in range(6)]
    folder = tmp_path / "paws_wiki" if "wiki" in name else tmp_path
    path = folder / file.removeprefix("paws_wiki_labeled_final/")
    write(path, "\n".join(("id\tsentence1\tsentence2\tlabel", *lines)) + "\n")
    rows = rows_of(name, tmp_path)
    for task in ("glue/qqp", "glue/mrpc"):
        same = find_task(task).labels[1]
        found = scores_of(name, rows, labelled(rows, [same] * 6), task)
        assert found == {"accuracy": 0.5}
    found = scores_of(name, rows, labelled(rows, ["0", "1"] * 3), "xtreme/pawsx")
    assert found == {"accuracy": 1.0}


def boolq_entry(number, *contrasts):
    return {
        "title": f"Title {number}",
        "paragraph": "It rained.",
        "question": f"did it rain {number}",
        "answer": "TRUE",
        "perturbed_questions": [{"perturbed_q": q, "answer": a} for q, a in contrasts],
    }


def test_boolq_contrast_sets_have_accuracy_and_consistency(tmp_path):
    template = {**boolq_entry(0, ("Perturbed Q", "New Answer")), "answer": "Gold Answer"}
    entries = [
        template,
        boolq_entry(1, ("did it snow", "FALSE"), ("did it pour", "TRUE")),
        boolq_entry(2, ("", "")),
        boolq_entry(3, ("was it dry", "FALSE"), ("", "")),
    ]
    write(tmp_path / "BoolQ/boolq_perturbed.json", json.dumps({"data": entries}))
    rows = rows_of("boolq-contrast", tmp_path)
    assert [(e.text_a, e.label) for e in rows.rows.examples] == [
        *(("Title 1 -- It rained.", label) for label in ("True", "False", "True")),
        *(("Title 3 -- It rained.", label) for label in ("True", "False")),
    ]
    guesses = labelled(rows, ["True", "False", "False", "True", "False"])
    assert scores_of("boolq-contrast", rows, guesses, "superglue/boolq") == {
        "accuracy_contrast": pytest.approx(2 / 3),
        "accuracy_original": 1.0,
        "consistency": 0.5,
    }


# Definitions of the sets, and bad input.


def test_classes_of_all_models_that_a_set_tests_can_be_merged():
    for each in CHALLENGE_SETS.values():
        for name in each.models:
            assert name in TASKS
            assert each.fits(find_task(name))
            merged = each.merged(find_task(name))
            assert {*merged.values()} in (set(), *({*each.counts_as.values()},))
            assert not each.other or each.other in each.counts_as.values()


def test_name_of_a_family_selects_all_its_sets():
    assert [each.name for each in named_sets(["anli", "hans", "anli-r2"])] == [
        "anli-r1", "anli-r2", "anli-r3", "hans",
    ]  # fmt: skip
    assert len(named_sets(["all"])) == len(CHALLENGE_SETS)
    with pytest.raises(BenchError, match=r"is called 'hams'\. Did you mean 'hans'"):
        named_sets(["hams"])


def test_set_with_classes_that_cannot_be_mapped_is_refused():
    with pytest.raises(BenchError, match=r"HANS cannot test models of SST-2: its class 'negative'"):
        CHALLENGE_SETS["hans"].merged(find_task("glue/sst2"))


def test_model_of_a_custom_task_can_be_tested_if_its_classes_can_be_mapped():
    rte, hans = find_task("glue/rte"), CHALLENGE_SETS["hans"]
    mine = replace(rte, name="mine/nli", definition={"title": "mine"}, labels=NLI_LABELS)
    assert hans.fits(mine)
    assert hans.merged(mine)["neutral"] == "not entailment"
    assert not hans.fits(replace(mine, definition=None)), "another benchmark's task"
    assert not hans.fits(find_task("glue/qnli")), "a question is no premise"
    with pytest.raises(BenchError, match="its class 'yes' maps to none of the set's classes"):
        hans.merged(replace(mine, labels=("yes", "no")))


def test_set_with_rows_of_one_class_is_refused(tmp_path):
    write(tmp_path / "snli_1.0_test_hard.jsonl", json_lines([NLI_LINES[1]] * 3))
    said = r"SNLI-hard in .* has only rows of the class 'neutral' \(3 rows\)"
    with pytest.raises(DataError, match=said):
        rows_of("snli-hard", tmp_path)


def test_set_with_an_unknown_label_is_refused_with_its_line(tmp_path):
    write(tmp_path / "snli_1.0_test_hard.jsonl", json_lines([*NLI_LINES, {**NLI_LINES[0],
          "gold_label": "maybe"}]))  # fmt: skip
    with pytest.raises(DataError, match=r"line 8 has the label 'maybe'; expected one of entail"):
        rows_of("snli-hard", tmp_path)


def test_missing_files_are_reported_with_the_option_to_pass(tmp_path):
    said = r"has no rows of HANS .*pass --sets-data DIR, a folder with heuristics_evaluation_set"
    with pytest.raises(DataError, match=said):
        rows_of("hans", tmp_path)
    hub = Data(source="hub")
    with pytest.raises(DataError, match="SNLI-hard is not on the hub: pass --sets-data DIR"):
        read_set(CHALLENGE_SETS["snli-hard"], hub, None)
    assert not is_found(CHALLENGE_SETS["snli-hard"], hub)
    assert is_found(CHALLENGE_SETS["hans"], hub)


def test_all_selects_only_sets_with_files_in_their_expected_locations(tmp_path):
    write_hans(tmp_path)
    write(tmp_path / "test.tsv", Path(tmp_path / "heuristics_evaluation_set.txt").read_text())
    data = parse_data(str(tmp_path))
    assert [name for name, each in CHALLENGE_SETS.items() if is_found(each, data)] == ["hans"]
