import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.metrics.entities import to_iob1, to_iob2
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import TASKS
from benchharness.tasks.task import score
from tests.helpers.conlleval_oracle import conlleval
from tests.helpers.prediction_files import guess, write
from tests.helpers.squad_oracle import evaluate_v1, evaluate_v2

MINI = parse_data("mini")


@pytest.fixture
def made(bench, tmp_path):
    """Function that writes random predictions; returns the file, predictions and examples."""

    def make(name, split="dev", seed=0):
        rows = read(TASKS[name], split, MINI)
        draw = random.Random(f"{seed} {split}")
        guesses = [guess(TASKS[name], example, draw) for example in rows.examples]
        folder = tmp_path / split
        folder.mkdir(exist_ok=True)
        return write(TASKS[name], guesses, rows.examples, folder), guesses, rows.examples

    return make


def call(bench, *words):
    ended = bench("score", *words, "--data", "mini", "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, t in TASKS.items()
        if t.dev_splits and t.has_train and t.kind not in ("ranking", "labels")
    ],
)
def test_score_command_prints_the_metrics_of_the_task(name, bench, made):
    path, guesses, examples = made(name)
    found = call(bench, path, "--task", name)
    expected = dict(score(TASKS[name], "dev", guesses, examples))
    # Conlleval compares the tags of the file, which are IOB1, without conversion.
    if name == "conll2003/ner":
        printed = found["splits"]["dev"]["official"]["accuracy"]
        assert printed != 100 * expected["accuracy"]
        expected["accuracy"] = pytest.approx(printed / 100, rel=1e-15)
    assert found["splits"]["dev"]["scores"] == expected
    assert found["splits"]["dev"]["predictions"] == len(examples)
    assert found["stored"] is None


@pytest.mark.parametrize("name", ["glue/ax", "superglue/axb", "superglue/axg"])
def test_score_command_uses_the_test_rows_of_a_diagnostic_set(name, bench, made):
    path, guesses, examples = made(name, "test")
    found = call(bench, path, "--task", name)
    assert found["splits"]["test"]["scores"] == dict(score(TASKS[name], "test", guesses, examples))


def test_score_command_accepts_a_file_per_mnli_dev_split(bench, made):
    files = [made("glue/mnli", split)[0] for split in ("dev", "dev_mm")]
    found = call(bench, *files, "--task", "mnli")
    assert list(found["splits"]) == ["dev", "dev_mm"]
    assert "accuracy_mm" in found["splits"]["dev_mm"]["scores"]
    (other,) = call(bench, files[1], "--task", "mnli", "--split", "dev_mm")["splits"].values()
    assert other == found["splits"]["dev_mm"]


def plain(examples):
    return [{"id": e.id, "answers": [text for text, _ in e.answers]} for e in examples]


def test_squad_1_scores_equal_those_of_the_official_script(bench, made):
    for seed in range(10):
        path, guesses, examples = made("squad/v1.1", seed=seed)
        found = call(bench, path, "--task", "squad/v1.1")["splits"]["dev"]
        answers = {p.id: p.text for p in guesses}
        assert found["official"] == evaluate_v1(plain(examples), answers)


DRAWS = {
    "odds": lambda draw, has: draw.choice([draw.uniform(-4, 4), 0.25, 1.0]) - 2 * has,
    "tiny": lambda draw, has: draw.random() * (1e-17 if has else 3e-17),
    "ties": lambda draw, has: draw.choice([0.25, 0.25 if has else 0.5]),
}
"""Typical no-answer scores, which are lower for answerable questions."""


@pytest.mark.parametrize("layout", ["odds", "tiny", "ties"])
@pytest.mark.parametrize("threshold", [None, 1.0, 0.25, -2.0])
def test_squad_2_scores_equal_those_of_the_official_script(
    threshold, layout, bench, made, tmp_path
):
    """The threshold sweep uses the scores of the file, and its order for equal scores."""
    options = () if threshold is None else ("--na-prob-threshold", threshold)
    limit = 1.0 if threshold is None else threshold
    for seed in range(3):
        path, _, examples = made("squad/v2.0")
        draw = random.Random(seed)
        shuffled = draw.sample(examples, len(examples))
        scores = {e.id: DRAWS[layout](draw, bool(e.answers)) for e in shuffled}
        answers = {e.id: draw.choice([*(text for text, _ in e.answers), "x"]) for e in examples}
        path.write_text(json.dumps(answers))
        (tmp_path / "na.json").write_text(json.dumps(scores))
        words = ("--task", "squad/v2.0", "--na-prob", "na.json", *options)
        found = call(bench, path, *words)["splits"]["dev"]
        expected = evaluate_v2(plain(examples), answers, scores, limit)
        assert found["official"] == expected
        assert expected["best_f1_thresh"] != 0.0
        assert fractions(found["scores"]) == pytest.approx(
            {
                "em": expected["exact"],
                "f1": expected["f1"],
                "em_hasans": expected["HasAns_exact"],
                "f1_noans": expected["NoAns_f1"],
                "em_best": expected["best_exact"],
                "f1_best": expected["best_f1"],
            },
            abs=1e-12,
        )
        assert found["scores"]["em_best_threshold"] == expected["best_exact_thresh"]
        assert found["scores"]["f1_best_threshold"] == expected["best_f1_thresh"]


def fractions(scores):
    """Return the scores that evaluate-v2.0.py prints too, in percent."""
    names = ("em", "f1", "em_hasans", "f1_noans", "em_best", "f1_best")
    return {name: 100 * scores[name] for name in names}


@pytest.mark.parametrize("threshold", [None, 1.0, -1.0])
def test_squad_2_answers_without_no_answer_scores_score_as_in_the_script(threshold, bench, made):
    """A threshold below 0 turns every answer into no answer."""
    path, guesses, examples = made("squad/v2.0")
    options = () if threshold is None else ("--na-prob-threshold", threshold)
    found = call(bench, path, "--task", "squad/v2.0", *options)["splits"]["dev"]
    limit = 1.0 if threshold is None else threshold
    expected = evaluate_v2(plain(examples), {p.id: p.text for p in guesses}, None, limit)
    assert found["official"] == expected
    assert 100 * found["scores"]["em"] == pytest.approx(expected["exact"], abs=1e-12)


def test_no_answer_probabilities_in_a_list_are_read(bench, made, tmp_path):
    path, guesses, examples = made("squad/v2.0")
    draw = random.Random(0)
    answers = {p.id: p.text for p in guesses}
    scores = {name: draw.random() for name in draw.sample(list(answers), len(answers))}
    rows = [
        {"id": name, "prediction_text": answers[name], "no_answer_probability": scores[name]}
        for name in scores
    ]
    path.write_text(json.dumps(rows))
    found = call(bench, path, "--task", "squad/v2.0", "--na-prob-threshold", "0.5")
    expected = evaluate_v2(plain(examples), answers, scores, 0.5)
    assert found["splits"]["dev"]["official"] == expected


def test_missing_squad_1_answers_count_as_wrong_like_in_the_script(bench, made):
    path, guesses, examples = made("squad/v1.1")
    answers = {p.id: p.text for p in guesses[13:]}
    path.write_text(json.dumps(answers))
    ended = bench("score", path, "--task", "squad/v1.1", "--data", "mini", "--json")
    found = json.loads(ended.out)["splits"]["dev"]
    expected = evaluate_v1(plain(examples), answers)
    assert found["official"] == expected
    assert 100 * found["scores"]["f1"] == pytest.approx(expected["f1"])
    assert found["missing"] == 13
    assert found["flags"] == [f"13 of {len(examples)} answers are missing"]
    ended = bench("score", path, "--task", "squad/v1.1", "--data", "mini")
    assert f"13 of {len(examples)} questions are missing" in ended.err
    assert "each counts as wrong, as in evaluate-v1.1.py" in ended.err
    assert f"! 13 of {len(examples)} answers are missing" in ended.out


def test_missing_answers_are_an_error_with_the_strict_or_store_option(bench, made):
    path, guesses, _ = made("squad/v1.1")
    path.write_text(json.dumps({p.id: p.text for p in guesses[1:]}))
    words = ("score", path, "--task", "squad/v1.1", "--data", "mini")
    ended = bench(*words, "--strict")
    assert (ended.code, ended.err.count("\n")) == (4, 1)
    assert "lacks 1 of" in ended.err
    ended = bench(*words, *STORE)
    assert ended.code == 4
    assert "pass --allow-missing" in ended.err
    assert not Path("board.sqlite").exists()
    assert bench(*words, *STORE, "--allow-missing").code == 0
    with open_store("board.sqlite") as store:
        (row,) = store.runs()
    assert list(row.flags["squad/v1.1"]) == [f"1 of {len(guesses)} answers are missing"]
    assert bench("report", "--db", "board.sqlite", "--out", "page.html").code == 0
    assert "--allow-missing --store --model theirs" in Path("page.html").read_text()


def test_record_scores_of_free_text_equal_those_of_the_official_script(bench, made):
    path, _, examples = made("superglue/record")
    draw = random.Random(0)
    answers = {e.id: draw.choice([*e.options, "the " + e.options[0], "", "x y"]) for e in examples}
    del answers[examples[-1].id]
    lines = ({"idx": int(name), "label": text} for name, text in answers.items())
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = call(bench, path, "--task", "superglue/record")["splits"]["dev"]
    golds = [{"id": e.id, "answers": [e.options[place] for place in e.gold]} for e in examples]
    # ReCoRD's script contains the functions of evaluate-v1.1.py.
    expected = evaluate_v1(golds, answers)
    assert 100 * found["scores"]["em"] == pytest.approx(expected["exact_match"])
    assert 100 * found["scores"]["f1"] == pytest.approx(expected["f1"])
    assert found["missing"] == 1


def columns_of(examples, scheme, draw):
    """Yield lines for conlleval: word, gold tag and predicted tag."""
    yield from ("-DOCSTART- -X- O O", "")
    for example in examples:
        guess = [tag if draw.random() < 0.8 else draw.choice(TASKS["conll2003/ner"].tags)
                 for tag in example.tags]  # fmt: skip
        golds, guesses = scheme(example.tags), scheme(guess)
        rows = zip(example.words, golds, guesses, strict=True)
        yield from (f"{word} NN {gold} {tag}" for word, gold, tag in rows)
        yield ""


@pytest.mark.parametrize("scheme", [to_iob1, to_iob2])
def test_conll_scores_equal_those_of_conlleval(scheme, bench, made):
    path, _, examples = made("conll2003/ner")
    lines = list(columns_of(examples, scheme, random.Random(0)))
    path.write_text("\n".join(lines))
    found = call(bench, path, "--task", "conll2003/ner")["splits"]["dev"]
    expected = conlleval(lines)
    assert found["official"] == expected
    assert 100 * found["scores"]["accuracy"] == pytest.approx(expected["accuracy"], abs=1e-12)
    # Without the gold column and the -DOCSTART- lines, tags are compared in the scheme of the
    # predictions.
    some = [" ".join(line.split()[:2] + line.split()[-1:]) for line in lines[2:]]
    path.write_text("\n".join(some))
    found = call(bench, path, "--task", "conll2003/ner")["splits"]["dev"]
    assert found["official"] == conlleval(lines[2:])


@pytest.mark.skipif("BENCH_TEST_DATA" not in os.environ, reason="BENCH_TEST_DATA is not set")
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_scores_on_official_squad_files_equal_those_of_the_scripts(version, bench, tmp_path):
    task, folder = TASKS[f"squad/{version}"], os.environ["BENCH_TEST_DATA"]
    examples = read(task, "dev", parse_data(folder)).examples
    draw = random.Random(version)
    answers = {
        e.id: draw.choice([*(text for text, _ in e.answers), *e.context.split()[:3], ""])
        for e in examples
    }
    (tmp_path / "predictions.json").write_text(json.dumps(answers))
    ended = bench("score", "predictions.json", "--task", task.name, "--data", folder, "--json")
    assert ended.code == 0, ended.err
    if version == "v1.1":
        expected = evaluate_v1(plain(examples), answers)
    else:
        expected = evaluate_v2(plain(examples), answers, None, 1.0)
    assert json.loads(ended.out)["splits"]["dev"]["official"] == expected


def test_score_output_has_the_split_metrics_and_official_scores(bench, made):
    path, _, examples = made("squad/v1.1")
    ended = bench("score", path, "--task", "squad/v1.1", "--data", "mini")
    first, *lines = ended.out.splitlines()
    assert first == f"SQuAD 1.1 dev (mini), {len(examples)} predictions"
    assert lines[0].split()[0] == "em"
    assert "scores as the official script prints them (in percent):" in lines
    assert lines[-1].split()[0] == "f1"


def test_header_with_a_spelling_error_is_accepted_with_a_note(bench, made):
    path, _, _ = made("glue/rte")
    path.write_text(path.read_text().replace("prediction", "predictions"))
    ended = bench("score", path, "--task", "glue/rte", "--data", "mini")
    assert ended.code == 0
    assert ended.err.startswith("bench: RTE.tsv line 1: the header is")


def test_score_command_flags_constant_predictions(bench, made):
    path, _, examples = made("glue/rte")
    rows = "".join(f"{e.id}\tentailment\n" for e in examples)
    path.write_text(f"index\tprediction\n{rows}")
    found = call(bench, path, "--task", "glue/rte")
    assert found["splits"]["dev"]["flags"] == ["constant predictions"]


# Storing scores.


STORE = ("--store", "--model", "theirs", "--db", "board.sqlite")
LAYOUTS = (
    *("glue/cola", "glue/stsb", "glue/rte", "superglue/boolq", "superglue/copa", "snli/snli"),
    *("superglue/multirc", "superglue/record", "squad/v1.1", "squad/v2.0", "race/all"),
    *("swag/regular", "conll2003/ner", "quac/quac", "coqa/coqa", "hotpotqa/distractor", "sst/sst5"),
)
"""One task per layout of prediction files."""


@pytest.mark.parametrize("name", LAYOUTS)
def test_predictions_from_every_file_layout_can_be_stored(name, bench, made):
    path, _, examples = made(name)
    found = call(bench, path, "--task", name, *STORE)
    with open_store("board.sqlite") as store:
        (evaluation,) = store.result(found["stored"]).evaluations
    assert dict(evaluation.scores) == found["splits"]["dev"]["scores"]
    assert len(evaluation.predictions) == len(examples)


def test_stored_scores_of_files_are_on_the_leaderboard(bench, made):
    for name in ("glue/cola", "glue/rte"):
        call(bench, made(name)[0], "--task", name, *STORE)
    files = [made("glue/mnli", split)[0] for split in ("dev", "dev_mm")]
    call(bench, *files, "--task", "glue/mnli", *STORE)
    (board,) = json.loads(bench("leaderboard", "--db", "board.sqlite", "--json").out)
    (entry,) = board["entries"]
    assert (entry["model"], entry["recipe"]) == ("theirs", "scored here")
    assert set(entry["tasks"]) == {"glue/cola", "glue/rte", "glue/mnli"}


def test_storing_equal_predictions_twice_creates_one_job(bench, made):
    path, _, _ = made("glue/rte")
    first = call(bench, path, "--task", "glue/rte", *STORE)["stored"]
    moved = path.with_name("moved.tsv")
    moved.write_bytes(path.read_bytes())
    assert call(bench, moved, "--task", "glue/rte", *STORE)["stored"] == first
    other, _, _ = made("glue/rte", seed=1)
    assert call(bench, other, "--task", "glue/rte", *STORE)["stored"] != first
    with open_store("board.sqlite") as store:
        assert len(store.runs()) == 2


def test_stored_score_of_a_file_has_predictions_and_no_training(bench, made):
    path, guesses, _ = made("glue/rte")
    key = call(bench, path, "--task", "glue/rte", *STORE)["stored"]
    with open_store("board.sqlite") as store:
        result = store.result(key)
    assert [row["label"] for row in result.evaluations[0].predictions] == [p.label for p in guesses]
    assert (result.cost.steps, result.curve) == (0, ())
    assert not any(name.endswith(":train") for name in result.job.fingerprints)


def test_report_shows_the_score_command_of_a_scored_file(bench, made):
    path, _, _ = made("squad/v2.0")
    ids = [e.id for e in read(TASKS["squad/v2.0"], "dev", MINI).examples]
    Path("na.json").write_text(json.dumps(dict.fromkeys(ids, -1.0)))
    options = ("--na-prob", "na.json", "--na-prob-threshold", "0.5")
    call(bench, path, "--task", "squad/v2.0", *options, *STORE)
    assert bench("report", "--db", "board.sqlite", "--out", "page.html").code == 0
    page = Path("page.html").read_text()
    assert "scored here" in page
    assert "--task squad/v2.0 --data mini --split dev" in page
    assert "--na-prob-threshold 0.5 --store --model theirs" in page
    assert "training speed" not in page


# Errors.


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--task", "glue/rte", "--store"), 2, "--store and --model NAME belong together"),
        (("--task", "glue/rte", "--model", "x"), 2, "--store and --model NAME belong together"),
        (("--task", "glue/rtee"), 2, "Did you mean 'glue/rte'?"),
        (("--task", "glue/rte", "--split", "eval"), 2, "has no split 'eval'"),
        (("--task", "glue/rte", "--split", "test"), 2, "labels of glue/rte test are hidden"),
        (("--task", "glue/cola"), 4, "cannot be scored"),
        (("--task", "glue/rte", "--split", "dev", "--split", "test"), 2, "do not match"),
        (("--task", "glue/rte", "--na-prob", "x"), 4, "has no questions without an answer"),
    ],
)
def test_invalid_score_arguments_are_a_one_line_error(words, code, sentence, bench, made):
    path, _, _ = made("glue/rte")
    ended = bench("score", path, *words, "--data", "mini")
    assert ended.code == code, ended.err
    assert sentence in ended.err
    assert ended.err.count("\n") == 1


ANSWERS = '{"q": "text"}'


@pytest.fixture
def squad(made):
    """Answers and odds for every question of SQuAD 2.0, and files of other kinds."""
    path, guesses, _ = made("squad/v2.0")
    ids = [p.id for p in guesses]
    Path("p.json").write_bytes(path.read_bytes())
    Path("na.json").write_text(json.dumps(dict.fromkeys(ids, 0.5)))
    Path("null_odds.json").write_bytes(path.read_bytes())
    Path("mixed.json").write_text(json.dumps(dict.fromkeys(ids, 0.5) | {ids[1]: "text"}))
    rows = [{"id": p.id, "prediction_text": p.text, "no_answer_probability": 0.1} for p in guesses]
    Path("list.json").write_text(json.dumps(rows))
    del rows[0]["no_answer_probability"]
    Path("gap.json").write_text(json.dumps(rows))


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("na.json",), 4, "is 0.5, expected a text"),
        (("p.json", "--na-prob", "p.json"), 4, "expected a number"),
        (("na.json", "--na-prob", "p.json"), 4, "is 0.5, expected a text"),
        (("p.json", "--na-prob", "null_odds.json"), 4, "expected a number"),
        (("mixed.json",), 4, "is 0.5, expected a text"),
        (("p.json", "--na-prob", "mixed.json"), 4, "is 'text', expected a number"),
        (("gap.json",), 4, "1 of its 264 answers have no no_answer_probability"),
        (("list.json", "--na-prob", "na.json"), 4, "na.json both have no-answer probabilities"),
        (("p.json", "--na-prob-threshold", "inf"), 2, "is inf, expected a finite number"),
        (("p.json", "--na-prob", "na.json", "--na-prob-threshold", "nan", "--json"), 2, "is nan"),
        (
            (
                "p.json",
                "--na-prob",
                "na.json",
                "--na-prob-threshold",
                "inf",
                "--store",
                "--model",
                "x",
            ),
            2,
            "is inf, expected a finite number",
        ),
        (("p.json", "--allow-missing"), 2, "--allow-missing requires --store"),
    ],
)
def test_unusable_squad_files_and_options_are_a_one_line_error(words, code, sentence, bench, squad):
    ended = bench("score", *words, "--task", "squad/v2.0", "--data", "mini")
    assert ended.code == code, ended.err
    assert sentence in ended.err
    assert ended.err.count("\n") == 1


def test_quoted_no_answer_scores_are_read_from_a_file_of_any_name(bench, squad):
    odds = json.loads(Path("na.json").read_text())
    Path("other.json").write_text(json.dumps({name: str(value) for name, value in odds.items()}))
    plain_odds, quoted = (
        call(bench, "p.json", "--task", "squad/v2.0", "--na-prob", name)["splits"]["dev"]
        for name in ("na.json", "other.json")
    )
    assert quoted["official"] == plain_odds["official"]
    (note,) = quoted["notes"]
    assert note.startswith("other.json: the scores are quoted")


@pytest.mark.parametrize("option", ["--na-prob", "--na-prob-threshold"])
def test_no_answer_options_are_an_error_for_squad_1(option, bench, made):
    path, _, _ = made("squad/v1.1")
    value = path if option == "--na-prob" else "0.5"
    ended = bench("score", path, "--task", "squad/v1.1", "--data", "mini", option, value)
    assert ended.code == 4
    assert f"has no questions without an answer: remove {option}." in ended.err


def test_no_answer_probabilities_are_an_error_for_squad_1(bench, squad, made):
    path, guesses, _ = made("squad/v1.1")
    rows = [{"id": p.id, "prediction_text": p.text, "no_answer_probability": 0.1} for p in guesses]
    path.write_text(json.dumps(rows))
    ended = bench("score", path, "--task", "squad/v1.1", "--data", "mini")
    assert ended.code == 4
    assert "which squad/v1.1 does not support" in ended.err


def test_scoring_a_file_with_answers_to_other_questions_only_is_an_error(bench, made):
    path, _, _ = made("squad/v1.1")
    path.write_text(ANSWERS)
    ended = bench("score", path, "--task", "squad/v1.1", "--data", "mini")
    assert ended.code == 4
    assert "none of its 1 answers belongs to one" in ended.err


def test_scoring_more_files_than_splits_is_an_error(bench, made):
    path, _, _ = made("glue/rte")
    ended = bench("score", path, path, "--task", "glue/rte", "--data", "mini")
    assert ended.code == 2
    assert "2 prediction files do not match" in ended.err


def test_score_command_does_not_import_torch(made):
    files = []
    for number, name in enumerate(LAYOUTS):
        path, _, _ = made(name)
        files.append((str(path.rename(path.with_name(f"{number}{path.suffix}"))), name))
    code = (
        "import sys\n"
        "from benchharness.cli.app import app\n"
        f"for path, task in {files!r}:\n"
        "    words = ['score', path, '--task', task, '--data', 'mini', '--json']\n"
        "    app(words, standalone_mode=False)\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    ended = subprocess.run((sys.executable, "-P", "-c", code), check=True, capture_output=True)
    assert ended.stdout.count(b'"splits"') == len(LAYOUTS)
