"""Commands that read the results of models on the hub, on the local test hub."""

import json

import pytest
import yaml

from benchharness.extensions.exports import cards
from benchharness.leaderboard.store.store import open_store
from tests.helpers.boards import make_job, make_runs
from tests.helpers.hub_commands import run_on_hub
from tests.helpers.hub_server import serve_hub
from tests.helpers.results import make_result

COMMIT = "a" * 40
README = "---\nlicense: mit\n---\n# Mine\n"
RESULTS = """
- dataset: {id: nyu-mll/glue, task_id: rte}
  value: 71.5
  date: '2026-02-03'
- dataset: {id: nyu-mll/glue, task_id: mrpc}
  value: 0.88
- dataset: {id: cais/hle, task_id: hle}
  value: 20.9
"""
CARD = """---
model-index:
- name: mine
  results:
  - task: {type: text-classification}
    dataset: {name: glue, type: glue, args: sst2}
    metrics:
    - {type: accuracy, value: 93.5}
    - {type: loss, value: 0.2}
---
# Mine
"""


def write_model(root, name, files, commit=COMMIT):
    folder = root / "models" / name / commit
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def imported_rows(db):
    with open_store(db, create=False) as store:
        return [row for row in store.runs() if row.kind == "imported"]


@pytest.fixture
def official(tmp_path):
    """Store a model with all GLUE tasks on official data, with three seeds each."""
    path = tmp_path / "official.sqlite"
    with open_store(path) as store:
        for run in [run for run in make_runs() if run.job.model == "minilm"]:
            job = make_job(model="minilm", task=run.job.task, seed=run.job.seed, data="hub")
            store.add_result(make_result(job, evaluations=run.evaluations))
    return path


@pytest.mark.slow
def test_pushed_results_are_imported_and_exported_again_with_the_same_bytes(official, tmp_path):
    root, other = tmp_path / "hub", tmp_path / "other.sqlite"
    write_model(root, "me/mine", {"README.md": README})
    write_model(root, "me/copy", {"README.md": README})
    ours = ("export", "--suite", "glue", "--model", "minilm", "--db", official, "--format")
    again = ("export", "--imported", "--model", "me/mine", "--db", other, "--format")
    with serve_hub(root) as hub:
        ended = run_on_hub(
            hub.endpoint,
            tmp_path / "home",
            (*ours, "eval-results", "--push", "me/mine"),
            (*ours, "model-index", "--push", "me/mine"),
            (*ours, "eval-results"),
            (*ours, "model-index"),
            ("db", "import", "hub:me/mine", "--db", other),
            (*again, "eval-results"),
            (*again, "model-index", "--out", tmp_path / "card.yaml"),
            token="hf_secret",
        )
        assert [each.code for each in ended] == [0] * 7, ended
        pushed, exported, card = dict(hub.taken), ended[2].out, ended[3].out
        assert pushed[cards.RESULTS_FILE] == exported.encode()
        assert ended[5].out == exported
        assert (tmp_path / "card.yaml").read_text() == card
        assert len(yaml.safe_load(exported)) == 11
        hub.requests.clear()
        hub.taken.clear()
        ended = run_on_hub(
            hub.endpoint,
            tmp_path / "home",
            (*again, "eval-results", "--push", "me/copy"),
            (*again, "model-index", "--push", "me/copy"),
            token="hf_secret",
        )
        assert [each.code for each in ended] == [0, 0], ended
        assert hub.taken == pushed
        assert not [each for each in hub.requests if "me/mine" in each]


@pytest.mark.slow
def test_imported_results_are_unranked_rows_with_source_and_commit(bench, tmp_path):
    root, db = tmp_path / "hub", tmp_path / "new.sqlite"
    files = {"README.md": CARD, ".eval_results/theirs.yaml": RESULTS, "modeling.py": "raise"}
    write_model(root, "them/theirs", files | {".eval_results/notes.txt": "not read"})
    newer = RESULTS.replace("71.5", "72.5")
    with serve_hub(root) as hub:
        first, second = run_on_hub(
            hub.endpoint,
            tmp_path / "home",
            ("db", "import", "hub:them/theirs", "--db", db),
            ("db", "import", "hub:them/theirs", "--db", db, "--json"),
        )
        asked = [each for each in hub.requests if "them/theirs" in each]
        write_model(root, "them/theirs", {".eval_results/theirs.yaml": newer}, "b" * 40)
        refs = ("db", "import", f"hub:them/theirs@{'b' * 40}", "--db", db)
        (third,) = run_on_hub(hub.endpoint, tmp_path / "home", refs)
    assert first.out == f"hub:them/theirs@{COMMIT}: 3 of 3 scores added\n"
    assert "other tasks, splits or metrics were left out: 2 (cais/hle, glue)." in first.err
    assert json.loads(second.out) == {
        "repository": "them/theirs",
        "commit": COMMIT,
        "scores": 3,
        "added": 0,
        "left_out": {"cais/hle": 1, "glue": 1},
    }
    # Only files with results are read, and nothing is sent.
    assert {each.rpartition("/")[2] for each in asked if "resolve" in each} == {
        "README.md",
        "theirs.yaml",
    }
    assert all(each.startswith(("GET", "HEAD")) for each in asked)
    assert third.out.startswith(f"hub:them/theirs@{'b' * 40}: 2 of 2 scores added")
    (board,) = json.loads(bench("leaderboard", "--suite", "glue", "--db", db, "--json").out)
    assert board["entries"] == []
    scores = {
        (row["source"].partition("blob/")[2], row["system"]): row["scores"]
        for row in board["imported"]
    }
    assert scores == {
        (f"{'b' * 40}/.eval_results/theirs.yaml", "them/theirs"): {
            "glue/rte": {"accuracy": 72.5},
            "glue/mrpc": {"f1 or accuracy": 88.0},
        },
        (f"{COMMIT}/README.md", "them/theirs"): {"glue/sst2": {"accuracy": 93.5}},
    }
    shown = bench("leaderboard", "--suite", "glue", "--db", db).out
    assert "them/theirs" in shown
    (protocol,) = [row["protocol"] for row in board["imported"] if "glue/mrpc" in row["scores"]]
    assert protocol.endswith("MRPC: the file names no unit for 0.88; assumed: 0 to 1")
    report = tmp_path / "report.html"
    assert bench("report", "--suite", "glue", "--db", db, "--out", report).code == 0
    assert f"{COMMIT}/README.md" in report.read_text()
    key = imported_rows(db)[-1].key
    assert "b" * 40 in bench("show", key, "--db", db).out


@pytest.mark.slow
def test_show_published_lists_models_on_leaderboards_of_the_hub(tmp_path):
    root = tmp_path / "hub"
    squad = "- dataset: {id: rajpurkar/squad_v2, task_id: squad_v2}\n  value: 81.25\n"
    write_model(root, "a/one", {".eval_results/squad.yaml": squad})
    write_model(root, "b/two", {".eval_results/squad.yaml": squad.replace("81.25", "8125")})
    write_model(root, "c/three", {".eval_results/glue.yaml": RESULTS})
    entry = {
        "value": 1.0,
        "filename": "x",
        "verified": False,
        "author": {"type": "user", "name": "a"},
    }
    board = [{"rank": n, "modelId": name, **entry} for n, name in enumerate(("a/one", "b/two"), 1)]
    show = ("show", "published", "--hub")
    with serve_hub(root) as hub:
        hub.leaderboards["rajpurkar/squad_v2"] = board
        every, squads, named, split, none, absent = run_on_hub(
            hub.endpoint,
            tmp_path / "home",
            (*show, "--json"),
            (*show, "--suite", "squad", "--model", "one"),
            (*show, "--suite", "glue", "--task", "rte", "--model", "c/three"),
            (*show, "--suite", "glue", "--model", "c/three", "--split", "test"),
            (*show, "--suite", "glue"),
            (*show, "--model", "c/nobody"),
        )
        sent = [each for each in hub.requests if not each.startswith(("GET", "HEAD"))]
    assert sent == []
    (row,) = json.loads(every.out)
    assert (row["system"], row["split"]) == ("a/one", "dev")
    assert row["scores"] == {"squad/v2.0": {"f1": 81.25}}
    assert row["source"] == f"{hub.endpoint}/a/one/blob/{COMMIT}/.eval_results/squad.yaml"
    assert every.err.count("\n") == 1
    assert "b/two is out of range: the f1 on SQuAD 2.0 is 8125, expected 0 to 1, or" in every.err
    assert "a/one" in squads.out
    assert "81.25" in squads.out
    assert "RTE accuracy" in named.out
    assert "71.5" in named.out
    assert "MRPC" not in named.out
    assert "no published result matches" in split.out
    assert none.code == 4
    assert "none of these data sets has a leaderboard on the hub: nyu-mll/glue" in none.err
    assert absent.code == 4
    assert "there is no such repository" in absent.err


TROUBLES = {
    "no such repository": ({}, "hub:me/nobody", 4, "there is no such repository, or it is private"),
    "no such revision": ({}, "hub:me/mine@v9", 4, "it has no such commit, branch or tag"),
    "no name": ({}, "hub:../../etc/passwd", 2, "is not the name of a repository on the hub"),
    "markup": ({}, "hub:<b>/x", 2, "is not the name of a repository on the hub"),
    "no revision": ({}, "hub:me/mine@", 2, "names no revision"),
    "no results": ({}, "hub:me/empty", 4, "has neither .eval_results/*.yaml nor README.md"),
    "refused": ({"failing": {"/api/models/": 403}}, "hub:me/mine", 4, "403"),
    "failing": ({"failing": {"resolve": 500}}, "hub:me/mine", 4, "500"),
    "silent": ({"silent": "resolve"}, "hub:me/mine", 4, "could not be read from the hub"),
    "cut": ({"cut": {"README.md"}}, "hub:me/mine", 4, "could not be read from the hub"),
    "flipped": ({"flipped": {"README.md"}}, "hub:me/mine", 4, "was damaged during the download"),
    "huge": ({}, "hub:me/huge", 4, "is too large: a file with results may have at most 1 MiB"),
    "binary": ({}, "hub:me/binary", 4, "is not UTF-8 text"),
    "odd path": ({}, "hub:me/odd", 4, "expected .eval_results/NAME.yaml with only letters"),
}


@pytest.mark.slow
def test_trouble_with_a_repository_is_one_sentence_and_creates_no_database(tmp_path):
    root, db = tmp_path / "hub", tmp_path / "none.sqlite"
    write_model(root, "me/mine", {"README.md": CARD})
    write_model(root, "me/empty", {"config.json": "{}"})
    write_model(root, "me/huge", {".eval_results/huge.yaml": f"{RESULTS}# {'x' * 2**20}\n"})
    write_model(root, "me/odd", {".eval_results/<img src=x>.yaml": RESULTS})
    write_model(root, "me/binary", {"README.md": ""}).joinpath("README.md").write_bytes(b"\xff\xfe")
    for trouble, name, code, sentence in TROUBLES.values():
        with serve_hub(root) as hub:
            vars(hub).update(trouble)
            command = ("db", "import", name, "--db", db)
            (ended,) = run_on_hub(hub.endpoint, tmp_path / "home", command, seconds=2)
        assert (ended.code, ended.out) == (code, ""), ended
        assert sentence in ended.err
        assert ended.err.startswith("bench: ")
        assert ended.err.count("\n") == 1, ended.err
        assert not db.exists()


@pytest.mark.slow
def test_commands_without_a_network_say_so_and_write_nothing(tmp_path):
    db = tmp_path / "none.sqlite"
    commands = (("db", "import", "hub:me/mine", "--db", db), ("show", "published", "--hub"))
    ended = run_on_hub("http://127.0.0.1:9", tmp_path / "home", *commands)
    for each, purpose in zip(
        ended, ("read from me/mine", "read from its leaderboards"), strict=True
    ):
        assert (each.code, each.out) == (4, "")
        assert each.err.startswith(f"bench: the hub does not answer, so nothing was {purpose}")
        assert each.err.count("\n") == 1
    assert not db.exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--format", "csv", "--model", "a/b"), 2, "--imported needs --format"),
        (("--format", "eval-results"), 2, "and one --model ORG/MODEL"),
        (("--format", "eval-results", "--model", "a/b", "--suite", "glue"), 2, "can be used only"),
        (("--format", "eval-results", "--model", "minilm"), 2, "no eval-results of minilm was imp"),
    ],
)
def test_export_of_imported_results_refuses_other_options(bench, official, words, code, sentence):
    ended = bench("export", "--imported", *words, "--db", official)
    assert (ended.code, ended.out) == (code, "")
    assert sentence in ended.err
    assert ended.err.count("\n") == 1


def test_options_of_the_hub_are_in_the_help(bench):
    assert "hub:ORG/MODEL" in bench("db", "import", "--help").out
    assert "--imported" in bench("export", "--help").out
    assert "--hub" in bench("show", "published", "--help").out
