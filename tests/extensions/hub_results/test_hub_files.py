"""Files with results that strangers have written: units, names, layouts, and hostile content."""

import time

import pytest
from huggingface_hub import eval_result_entries_to_yaml, parse_eval_result_entries
from huggingface_hub.utils import yaml_dump

from benchharness.errors import BenchError, DataError
from benchharness.extensions.exports.cards import RESULTS_FILE
from benchharness.extensions.hub_results import import_option
from benchharness.extensions.hub_results.layout import entries_in
from benchharness.extensions.hub_results.records import imported_content, to_results
from benchharness.extensions.hub_results.repository import Repository
from benchharness.extensions.hub_results.scores import read_scores
from benchharness.leaderboard.store.store import open_store
from tests.helpers.hostile import HOSTILE_CELLS

THEIRS = ".eval_results/theirs.yaml"
CARD = "README.md"


def repository(files, name="them/theirs"):
    url = f"https://hub.example/{name}/blob/{'a' * 40}"
    date = "2026-03-04T05:06:07Z"
    return Repository(name=name, commit="a" * 40, date=date, url=url, files=files)


def of_results(value, dataset="nyu-mll/glue", task="rte", path=THEIRS):
    """Return a repository with one entry of eval-results; `value` is YAML."""
    text = f"- dataset: {{id: {dataset}, task_id: {task}}}\n  value: {value}\n"
    return repository({path: text})


def of_card(metrics, dataset="type: nyu-mll/glue, config: rte, split: validation"):
    """Return a repository whose card has results on one data set; both arguments are YAML."""
    return repository(
        {
            CARD: "---\nmodel-index:\n- name: theirs\n  results:\n"
            "  - task: {type: text-classification}\n"
            f"    dataset: {{name: A data set, {dataset}}}\n"
            f"    metrics: [{metrics}]\n---\n# Theirs\n"
        }
    )


def only(found):
    (score,) = read_scores(found).scores
    return (score.task, score.split, score.metric, score.value), score.flag


@pytest.mark.parametrize(
    ("found", "score", "flag"),
    [
        (of_results("71.5"), ("glue/rte", "dev", "accuracy", 0.715), ""),
        (of_results("0.8"), ("glue/rte", "dev", "accuracy", 0.8), "names no unit for 0.8"),
        (of_results("0.8", path=RESULTS_FILE), ("glue/rte", "dev", "accuracy", 0.008), ""),
        (of_results("88", task="mrpc"), ("glue/mrpc", "dev", "f1 or accuracy", 0.88), ""),
        (
            of_results("88", task="mrpc", path=RESULTS_FILE),
            ("glue/mrpc", "dev", "f1 and accuracy", 0.88),
            "",
        ),
        (of_results("84", task="mnli_mm"), ("glue/mnli", "dev_mm", "accuracy", 0.84), ""),
        (of_results("-20", task="cola"), ("glue/cola", "dev", "mcc", -0.2), ""),
        (of_results("70", "ehovy/race", "all"), ("race/all", "dev", "accuracy", 0.7), ""),
    ],
)
def test_entry_of_eval_results_is_a_score_with_its_unit(found, score, flag):
    assert only(found)[0] == pytest.approx(score)
    assert (flag in only(found)[1]) if flag else only(found)[1] == ""


GLUE = "type: nyu-mll/glue, config"


@pytest.mark.parametrize(
    ("found", "score", "flag"),
    [
        (of_card("{type: accuracy, value: 0.8}"), ("glue/rte", "dev", "accuracy", 0.8), ""),
        (of_card("{type: accuracy, value: 80}"), ("glue/rte", "dev", "accuracy", 0.8), ""),
        (
            of_card("{type: matthews_correlation, value: 0.5}", f"{GLUE}: cola, split: validation"),
            ("glue/cola", "dev", "mcc", 0.5),
            "",
        ),
        (
            of_card("{type: accuracy, value: 0.8}", f"{GLUE}: mnli, split: validation_mismatched"),
            ("glue/mnli", "dev_mm", "accuracy", 0.8),
            "",
        ),
        (
            of_card("{type: accuracy, value: 0.8}", f"{GLUE}: rte, split: test"),
            ("glue/rte", "test", "accuracy", 0.8),
            "",
        ),
        (
            of_card("{type: f1, value: 0.9}", "type: glue, args: mrpc"),
            ("glue/mrpc", "dev", "f1", 0.9),
            "names no split; assumed: dev",
        ),
        (
            of_card("{type: exact_match, value: 81.2}", "type: squad, split: validation"),
            ("squad/v1.1", "dev", "em", 0.812),
            "",
        ),
    ],
)
def test_entry_of_a_model_card_is_a_score_of_its_metric_and_split(found, score, flag):
    assert only(found)[0] == pytest.approx(score)
    assert (flag in only(found)[1]) if flag else only(found)[1] == ""


UNKNOWN = {
    "task": of_results("50", task="nope"),
    "data set": of_results("50", "cais/hle", "hle"),
    "metric": of_card("{type: loss, value: 0.5}"),
    "split": of_card("{type: accuracy, value: 0.5}", f"{GLUE}: rte, split: train"),
    "config": of_card("{type: accuracy, value: 0.5}", "type: nyu-mll/glue, split: validation"),
    "card": repository({CARD: "# A card without metadata\n"}),
    "metadata": repository({CARD: "---\nlicense: mit\n---\n"}),
    "empty": repository({THEIRS: "[]"}),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_repository_without_scores_on_known_tasks_is_an_error(name):
    with pytest.raises(DataError, match="them/theirs has no scores on tasks of benchharness"):
        read_scores(UNKNOWN[name])


def test_entries_on_unknown_tasks_are_counted():
    text = "".join(
        f"- dataset: {{id: {name}, task_id: {task}}}\n  value: 50\n"
        for name, task in (("nyu-mll/glue", "rte"), ("cais/hle", "hle"), ("cais/hle", "b"))
    )
    found = read_scores(repository({THEIRS: text}))
    assert len(found.scores) == 1
    assert found.others == {"cais/hle": 2}


OUT_OF_RANGE = (
    *(of_results(value) for value in ("101", "-1", "1e400", ".nan", ".inf", "true", "null")),
    *(of_results(value) for value in ("'71.5'", "71.5 ± 2", "[71.5]", "{a: 1}", "9" * 400)),
    of_results("101", path=RESULTS_FILE),
    of_results("-101", task="cola"),
    *(of_card(f"{{type: accuracy, value: {value}}}") for value in ("101", "-0.1", ".nan", "a")),
)


@pytest.mark.parametrize("number", range(len(OUT_OF_RANGE)))
def test_value_that_is_not_a_possible_score_is_an_error(number):
    with pytest.raises(
        DataError, match=r"entry 1 in .* is out of range: the .* expected (-?\d|a n)"
    ):
        read_scores(OUT_OF_RANGE[number])


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(f'*{before}' for _ in range(9))}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
RESULT = "task: {type: t}, dataset: {name: n, type: nyu-mll/glue}, metrics: *m"
METRICS_BOMB = (
    f"---\nm: &m [{', '.join(['{type: accuracy, value: 1}'] * 2000)}]\n"
    f"model-index: [{{name: a, results: [{', '.join([f'{{{RESULT}}}'] * 2000)}]}}]\n---\n"
)
CODE = "!!python/object/apply:os.system ['touch executed']"
OTHER_LAYOUTS = {
    "mapping": {THEIRS: "dataset: {id: a/b}\n"},
    "text": {THEIRS: "no results\n"},
    "entries without a task": {THEIRS: "- dataset: {id: nyu-mll/glue, config: rte}\n  value: 5\n"},
    "entries without a value": {THEIRS: "- dataset: {id: nyu-mll/glue, task_id: rte}\n"},
    "entries of texts": {THEIRS: "- a\n- b\n"},
    "task that is a list": {THEIRS: "- dataset: {id: a, task_id: [rte]}\n  value: 5\n"},
    "notes that are a mapping": {
        THEIRS: "- dataset: {id: a, task_id: b}\n  value: 5\n  notes: {a: 1}\n"
    },
    "source without a URL": {
        THEIRS: "- dataset: {id: a, task_id: b}\n  value: 5\n  source: {name: c}\n"
    },
    "no YAML": {THEIRS: "- [a\n"},
    "tabs": {THEIRS: "-\ta: 1\n\t b"},
    "null bytes": {THEIRS: "- \x00\n"},
    "code": {THEIRS: f"- {CODE}\n"},
    "code in a card": {CARD: f"---\nmodel-index: {CODE}\n---\n"},
    "set": {THEIRS: "!!set {a, b}\n"},
    "binary": {THEIRS: "- !!binary aGVsbG8=\n"},
    "nesting": {THEIRS: "[" * 20_000},
    "some nesting": {THEIRS: "[" * 40 + "]" * 40},
    "alias bomb": {THEIRS: BOMB},
    "merge bomb": {
        THEIRS: "- &a {x: 1}\n" + "- &b {<<: [*a, *a, *a]}\n- &c {<<: [*b, *b, *b]}\n" * 3
    },
    "key twice": {THEIRS: "- dataset: {id: a, task_id: b}\n  value: 1\n  value: 2\n"},
    "key that is a list": {THEIRS: "- {[a]: 1}\n"},
    "alias of itself": {THEIRS: "&a [*a]"},
    "metrics bomb": {CARD: METRICS_BOMB},
    "index that is a text": {CARD: "---\nmodel-index: best\n---\n"},
    "results that are a number": {CARD: "---\nmodel-index: [{name: a, results: 5}]\n---\n"},
    "card that is a list": {CARD: "---\n- a\n---\n"},
}


@pytest.mark.parametrize("name", OTHER_LAYOUTS)
def test_40_file_with_another_layout_or_code_or_a_bomb_is_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    started = time.monotonic()
    with pytest.raises(DataError, match="does not have the layout of") as caught:
        read_scores(repository(OTHER_LAYOUTS[name]))
    assert time.monotonic() - started < 30
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500
    assert caught.value.exit_code == 4
    assert list(tmp_path.iterdir()) == []


def test_wrong_entry_after_right_ones_stores_nothing(bench, tmp_path, monkeypatch):
    right = "- dataset: {id: nyu-mll/glue, task_id: rte}\n  value: 70\n"
    wrong = right.replace("70", "700")
    found = repository({THEIRS: right * 200 + wrong})
    monkeypatch.setattr(import_option, "read_repository", lambda *_: found)
    ended = bench("db", "import", "hub:them/theirs", "--db", tmp_path / "new.sqlite")
    assert (ended.code, ended.out) == (4, "")
    assert "entry 201 in .eval_results/theirs.yaml of them/theirs is out of range" in ended.err
    assert ended.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", HOSTILE_CELLS)
def test_hostile_texts_are_stored_and_shown_without_effect(bench, tmp_path, monkeypatch, text):
    entry = {
        "dataset": {"id": "nyu-mll/glue", "task_id": "rte", "revision": text},
        "value": 70.5,
        "date": text,
        "source": {"url": text, "name": text, "user": text, "org": text},
        "notes": text,
    }
    other = {"dataset": {"id": text, "task_id": text}, "value": text}
    found = repository({RESULTS_FILE: yaml_dump([entry, other])})
    monkeypatch.setattr(import_option, "read_repository", lambda *_: found)
    db, page = tmp_path / "new.sqlite", tmp_path / "report.html"
    ended = bench("db", "import", "hub:them/theirs", "--db", db)
    assert ended.code == 0, ended.err
    assert ended.err.count("\n") == 1
    assert bench("leaderboard", "--db", db).code == 0
    assert bench("report", "--db", db, "--out", page).code == 0
    assert "<script>alert(1)" not in page.read_text("utf-8")
    with open_store(db, create=False) as store:
        (key,) = [row.key for row in store.runs()]
        again, others = imported_content(store, "them/theirs", "eval-results")
    shown = bench("show", key, "--db", db)
    assert shown.code == 0
    assert "\u202e" not in shown.out
    assert others == 1
    (read,) = entries_in(repository({THEIRS: again}))
    assert read.entry.notes == text.replace("\0", "\\x00")


def test_two_entries_on_the_same_score_are_two_rows(tmp_path):
    entry = "- dataset: {id: nyu-mll/glue, task_id: rte}\n  value: 70\n  notes: one\n"
    found = repository({RESULTS_FILE: entry + entry.replace("70", "72").replace("one", "two")})
    with open_store(tmp_path / "new.sqlite") as store:
        assert store.add_results(to_results(found, read_scores(found))) == 2
        assert len(store.runs(model="them/theirs")) == 2
        text, _ = imported_content(store, "them/theirs", "eval-results")
    assert parse_eval_result_entries(eval_of(text)) == parse_eval_result_entries(eval_of(found))


def test_values_without_a_unit_are_not_exported_as_percent(tmp_path):
    entry = "- dataset: {id: nyu-mll/glue, task_id: rte}\n  value: 0.91\n"
    own = {RESULTS_FILE: "- dataset: {id: nyu-mll/glue, task_id: cola}\n  value: 60.1\n"}
    with open_store(tmp_path / "alone.sqlite") as store:
        found = repository({THEIRS: entry})
        store.add_results(to_results(found, read_scores(found)))
        with pytest.raises(BenchError, match="do not give the unit of a value"):
            imported_content(store, "them/theirs", "eval-results")
    with open_store(tmp_path / "both.sqlite") as store:
        found = repository({THEIRS: entry, **own})
        store.add_results(to_results(found, read_scores(found)))
        text, others = imported_content(store, "them/theirs", "eval-results")
    assert others == 1
    assert eval_of(text) == eval_of(repository(own))


def test_metric_of_a_card_with_other_arguments_is_flagged():
    name = {"task": {"type": "text-classification"}}
    dataset = {"dataset": {"name": "GLUE", "type": "glue", "config": "mrpc", "split": "validation"}}
    metric = {"type": "f1", "value": 0.89, "args": {"average": "macro"}}
    card = {"model-index": [{"name": "x", "results": [{**name, **dataset, "metrics": [metric]}]}]}
    (score,) = read_scores(repository({"README.md": f"---\n{yaml_dump(card)}---\n"})).scores
    assert "f1 with other arguments: {'average': 'macro'}" in score.flag


def eval_of(found):
    """Return the entries of a text or repository as the Hub's library writes them."""
    there = repository({THEIRS: found}) if isinstance(found, str) else found
    return eval_result_entries_to_yaml([each.entry for each in entries_in(there)])
