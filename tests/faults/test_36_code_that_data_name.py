"""Tests of fault 36: metric code referenced by an archive, store or model folder is not run.

The metric of a run on custom data may be a script. Every command runs on a store with such runs
from an archive, from another store, and in a store of another user, and on a model's folder. Each
script would create a file when it is imported.
"""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from inspect import isfunction, signature
from pathlib import Path
from types import SimpleNamespace

import pytest

import benchharness as bh
from benchharness.cli.commands import commands
from benchharness.driver.drive import _require_trust
from benchharness.driver.options import RunOptions
from benchharness.errors import BenchError, ForeignCodeError
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.custom_data.metrics import Script, load_script
from benchharness.extensions.custom_data.task import OwnData, define
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.archive import read_archive, write_archive
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.custom import code_of
from benchharness.tasks.foreign_code import Code, begin, name_code, require_named
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.worker.job import run_job
from tests.helpers.extensions import of_extensions
from tests.helpers.own_files import as_csv, labelled
from tests.helpers.plans import plan_job
from tests.helpers.postgres import empty, server
from tests.helpers.results import make_evaluation, make_job, make_result

SCRIPT = """
from pathlib import Path
import datasets
import evaluate

Path({marker!r}).touch()

class Metric(evaluate.Metric):
    def _info(self):
        kind = datasets.Value("int32")
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="",
            features=datasets.Features({{"predictions": kind, "references": kind}}),
        )

    def _compute(self, predictions, references):
        return {{"share": sum(a == b for a, b in zip(predictions, references)) / len(references)}}
"""

KINDS = ("archive", "merged", "file", "hub")
"""Origins of the runs; "hub" names a metric of the hub instead of a script."""


class Foreign(SimpleNamespace):
    """Paths of another user's store, archive, rows and scripts, and the file that scripts create.

    `run` is the key of a run whose model is kept in `folder`, `key` that of another one. `board` is
    a repository of results with the archive.
    """

    home: Path
    run: str
    key: str
    task: str
    folder: Path
    board: Path
    marker: Path
    owns: dict[str, OwnData]


def _definition(kind: str, home: Path, marker: Path) -> OwnData:
    """Return the definition of a task whose metric code no command has trusted."""
    script = home / f"evil_{kind}.py"
    script.write_text(SCRIPT.format(marker=str(marker)))
    word = "evaluate:someone/metric" if kind == "hub" else f"evaluate:{script}"
    own = find_own(str(home / "rows.csv"), metrics=["accuracy"]).own
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    return replace(own, metrics=(word,), scripts={word: Script(digest, 1.0)})


def _job(own: OwnData, home: Path, model: str, seed: int) -> Job:
    task, data = define(own.to_json()), str(home / "rows.csv")
    found = {split: read(task, split, parse_data(data)).fingerprint for split in ("train", "dev")}
    return make_job(
        model=model,
        task=task.name,
        seed=seed,
        data=data,
        fingerprints={f"{task.name}:{split}": digest for split, digest in found.items()},
        definition=own.to_json(),
    )


def _result(own: OwnData, home: Path, model: str, seed: int) -> Result:
    job = _job(own, home, model, seed)
    task = define(own.to_json())
    rows = read(task, "dev", parse_data(job.data))
    right = 2 if model == "one" else 3
    predicted = [
        {"id": e.id, "label": e.label if (n + seed) % right else "neg", "scores": [0.4, 0.6]}
        for n, e in enumerate(rows.examples)
    ]
    made = make_evaluation(job, task.name, "dev", scores={task.metrics[0].name: 0.5 + seed / 10})
    return make_result(job, evaluations=(replace(made, predictions=tuple(predicted)),))


@pytest.fixture(scope="module")
def copies(evaluate_copies, tmp_path_factory):
    """Set a data folder of its own for the user, and go offline."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def foreign(copies, tmp_path_factory) -> Iterator[Foreign]:
    """Files of another user, whose only computed run trusts its script and runs it."""
    home, marker = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("mark") / "ran"
    (home / "rows.csv").write_text(as_csv([("text", "label"), *labelled(["neg", "pos"], 60)]))
    owns = {kind: _definition(kind, home, marker) for kind in KINDS}
    results = {
        kind: [_result(own, home, model, seed) for model in ("one", "two") for seed in (1, 2)]
        for kind, own in owns.items()
    }
    run, kept = _trained(owns["archive"], home)
    assert marker.exists(), "a script that leaves no file where it is run would pass every test"
    marker.unlink()
    begin()
    results["archive"].append(run)
    with open_store(home / "v.sqlite") as store:
        store.add_results(results["file"])
        for kind in ("archive", "merged", "hub"):
            with open_store(home / f"{kind}.sqlite") as other:
                other.add_results(results[kind])
                if kind == "merged":
                    store.merge(other.stored_runs())
                    continue
                with (home / f"{kind}.jsonl.gz").open("wb") as file:
                    write_archive(file, other.stored_runs(), paths=True)
            store.add_stored(read_archive(home / f"{kind}.jsonl.gz"))
    yield Foreign(
        home=home,
        run=run.job.key,
        key=results["archive"][0].job.key,
        task=run.job.task,
        folder=kept,
        board=_repository(home),
        marker=marker,
        owns=owns,
    )
    begin()


def _repository(home: Path) -> Path:
    """Create a repository of results to which each archive was contributed."""
    place = home / "board" / "contributors" / "eve"
    place.mkdir(parents=True)
    (home / "board" / "share.toml").write_text('version = 1\ntitle = "x"\n')
    for kind in ("archive", "merged", "hub"):
        if (home / f"{kind}.jsonl.gz").exists():
            shutil.copy(home / f"{kind}.jsonl.gz", place)
    return home / "board"


def _trained(own: OwnData, home: Path) -> tuple[Result, Path]:
    """Train and keep a model by a command that trusts the script."""
    task = define(own.to_json())
    values = {"epochs": "1", "batch_size": "16", "evaluations": "1", "max_tokens": "16"}
    data = str(home / "rows.csv")
    job = plan_job("tiny", task.name, data, overrides=values, limit=16, precision="fp32")
    name_code(own.code)
    return run_job(job, keep=home / "models" / job.key), home / "models" / job.key


@pytest.fixture
def victim(bench, foreign, tmp_path):
    """Run the command line next to a store with all of these runs, and a kept model."""
    shutil.copy(foreign.home / "v.sqlite", tmp_path)
    shutil.copytree(foreign.home / "models", tmp_path / "models")
    return bench


DB = ("--db", "v.sqlite")

WORDS: dict[str, list[tuple[str, ...]]] = {
    "run": [
        ("run", "--model", "majority", "--task", "TASK", "--data", "ROWS", *DB),
        ("run", "--model", "tiny", "--task", "TASK", "--data", "ROWS", "--dry-run", *DB),
    ],
    "watch": [("watch", "--once", *DB)],
    "fetch": [("fetch", "--model", "tiny")],
    "run --write-task": [("run", "--data-file", "ROWS", "--write-task", "--out", "task.py")],
    "which": [("which", "--among", "tiny", "--minutes", "0.001", "--task", "TASK", *DB)],
    "check": [
        ("check", "--write", "--model", "one", "--suite", "SUITE", "--out", "b.json", *DB),
        ("check", "--model", "tiny", "--baseline", "b.json", "--data", "ROWS"),
    ],
    "check --write": [("check", "--write", "--model", "one", "--out", "c.json", *DB)],
    "predict": [("predict", "FOLDER", "ROWS"), ("predict", "RUN", "ROWS", *DB)],
    "submit": [("submit", "--model", "one", "--suite", "SUITE", "--out", "s.zip", *DB)],
    "score": [("score", "ROWS", "--task", "TASK", "--data", "ROWS", *DB)],
    "leaderboard": [("leaderboard", *DB), ("leaderboard", "--intervals", *DB)],
    "report": [("report", "--out", "r.html", "--predictions", *DB)],
    "report predictions": [("report", "predictions", "one", "two", *DB)],
    "compare": [("compare", "one", "two", "--by-category", "--examples", "3", *DB)],
    "plan": [("plan", "one", "two", *DB)],
    "curve": [("curve", "one", *DB)],
    "ensemble": [("ensemble", "one", "two", *DB)],
    "show": [("show", "KEY", *DB), ("show", "TASK", *DB)],
    "show suites": [("show", "suites")],
    "show tasks": [("show", "tasks")],
    "show models": [("show", "models")],
    "show published": [("show", "published")],
    "show runs": [("show", "runs", *DB)],
    "model": [
        ("model", "RUN", "--to", "taken", "--collapsed-too", *DB),
        ("model", "taken", "--check", "--variant", "taken", "--rows", "ROWS", *DB),
        ("model", "RUN", "--retrain-anyway", "--db", "moved/v.sqlite"),
    ],
    "export": [
        ("export", "--format", "latex", "--ties", *DB),
        ("export", "--predictions", *DB),
        ("export", "--format", "model-index", *DB),
    ],
    "doctor": [("doctor", *DB)],
    "db check": [("db", "check", *DB)],
    "db backup": [("db", "backup", "COPY", *DB)],
    "db merge": [("db", "merge", "v.sqlite", "--db", "new.sqlite")],
    "db import": [("db", "import", "ARCHIVE", "--db", "new.sqlite")],
    "db rename": [("db", "rename", "one", "another", *DB)],
    "db hide": [("db", "hide", "one", *DB)],
    "db delete": [("db", "delete", "KEY", "--yes", *DB)],
    **of_extensions(
        {
            "calibration": {"calibration": [("calibration", "one", *DB)]},
            "groups": {"groups": [("groups", "one", *DB)]},
            "robustness": {"robustness": [("robustness", "one", "--perturb", "all", *DB)]},
            "sheet": {"sheet": [("sheet", "one", "--suite", "SUITE", *DB)]},
            "paper": {
                "paper": [("paper", "--model", "tiny", "--against", "minilm", "--dry-run", *DB)]
            },
            "explanation": {
                "explain": [("explain", "RUN", "--from", "KEY", "--try", "1", *DB)],
            },
            "demo": {"demo": [("demo", "--dry-run", *DB)]},
            "run_file": {"show config": [("show", "config", "run.toml")]},
            "hub_results": {"show eval-yaml": [("show", "eval-yaml", "glue")]},
            "reproduce": {
                "reproduce": [
                    ("reproduce", "ARCHIVE", "--db", "new.sqlite"),
                    ("reproduce", "ARCHIVE", "--data", "ROWS", "--db", "new.sqlite"),
                    ("reproduce", *DB),
                    ("reproduce", "--list", *DB),
                ]
            },
            "share": {
                "share init": [("share", "init", "board")],
                "share add": [
                    ("share", "init", "board"),
                    ("share", "add", "one", "--as", "ada", "--to", "board", *DB),
                ],
                "share check": [
                    ("share", "check", "BOARD"),
                    ("share", "check", "BOARD", "--reproduce", "100%", "--data", "ROWS"),
                    ("share", "check", "BOARD", "--comment", "c.md", "--json"),
                ],
                "share build": [("share", "build", "BOARD", "--out", "site")],
            },
        }
    ),
}
"""Arguments of each command; the words in capitals are replaced by paths and keys."""


REFUSED = {
    "run": [4, 0],
    "which": [2],
    "paper": [4],
    "check": [0, 2],
    "submit": [2],
    "score": [4],
    "explain": [2],
    "show config": [2],
    "reproduce": [4, 4, 4, 0],
    "share add": [0, 4],
    "share check": [1, 1, 1],
    "share build": [2],
    "curve": [2],
    "ensemble": [4],
    "groups": [2],
    "robustness": [2],
    "model": [0, 4, 4],
    "export": [0, 0, 2],
}
"""Exit codes of commands that do not always exit with 0: they need code or other runs."""


def test_36_untrusted_code_is_tested_with_every_command() -> None:
    assert WORDS.keys() == {name for name, command in commands().items() if command.place}


@pytest.mark.parametrize("command", WORDS)
def test_36_no_command_runs_untrusted_code_referenced_by_stored_data(
    victim, foreign, command
) -> None:
    _call(victim, foreign, command)


@pytest.fixture(scope="module")
def shared():
    """Return the URL of a server that other users write to as well."""
    with server() as url:
        yield url


@pytest.mark.soak
@pytest.mark.parametrize("command", WORDS)
def test_36_no_command_runs_untrusted_code_referenced_by_a_shared_server(
    shared, victim, foreign, command
) -> None:
    empty(shared)
    with open_store(shared) as store, open_store("v.sqlite") as theirs:
        store.add_stored(theirs.stored_runs())
    shutil.copytree("models", "results/models")
    _call(victim, foreign, command, shared)


def _call(victim, foreign, command, store="v.sqlite") -> None:
    Path("moved").mkdir()
    shutil.copy("v.sqlite", "moved")
    names = {
        "TASK": foreign.task,
        "SUITE": foreign.task.partition("/")[0],
        "ROWS": str(foreign.home / "rows.csv"),
        "ARCHIVE": str(foreign.home / "archive.jsonl.gz"),
        "FOLDER": str(foreign.folder),
        "BOARD": str(foreign.board),
        "RUN": foreign.run[:12],
        "KEY": foreign.key[:12],
        "v.sqlite": store,
        "COPY": "copy.sqlite" if store == "v.sqlite" else "copy.jsonl.gz",
    }
    ended = [victim(*(names.get(word, word) for word in words)) for words in WORDS[command]]
    assert not foreign.marker.exists()
    codes = [one.code for one in ended]
    assert codes == REFUSED.get(command, [0] * len(codes)), ended


SAID = "is third-party code that no earlier command has allowed for this leaderboard"


@pytest.mark.parametrize(
    "words",
    [
        ("leaderboard", "--intervals"),
        ("compare", "one", "two"),
        ("plan", "one", "two"),
        ("ensemble", "one", "two"),
        ("report", "--out", "r.html"),
        ("run", "--model", "majority", "--task", "TASK", "--data", "ROWS"),
    ],
    ids=" ".join,
)
def test_36_score_is_shown_with_a_note_about_its_untrusted_metric_code(victim, foreign, words):
    names = {"TASK": foreign.task, "ROWS": str(foreign.home / "rows.csv")}
    ended = victim(*(names.get(word, word) for word in words), *DB)
    page = Path("r.html").read_text() if "report" in words else ""
    said = " ".join(f"{ended.out} {ended.err} {page}".split())
    assert f"the metric evil_archive.py {SAID}" in said
    assert str(foreign.home / "evil_archive.py") not in page


def test_36_metric_code_trusted_for_one_store_is_not_loaded_for_another(victim, foreign):
    for kind in ("archive", "merged", "file"):
        name_code(foreign.owns[kind].code)
    with open_store("v.sqlite") as store:
        store.keep_named_code()
    begin()
    shutil.copy("v.sqlite", "elsewhere.sqlite")
    own, other = (
        victim("leaderboard", "--intervals", "--json", "--db", name).out
        for name in ("v.sqlite", "elsewhere.sqlite")
    )
    assert own.count(f"evil_archive.py {SAID}") == 0
    assert own.count(SAID) > 0, "that of the hub was never named"
    assert other.count(f"evil_archive.py {SAID}") > 0
    assert other.count(SAID) > own.count(SAID)
    with suppress(FileNotFoundError):
        foreign.marker.unlink()


def test_36_option_trust_remote_code_loads_untrusted_metric_code(victim, foreign):
    words = ("compare", "one", "two", "--suite", foreign.task.partition("/")[0], *DB)
    assert SAID in " ".join(victim(*words).out.split())
    assert SAID not in " ".join(victim(*words, "--trust-remote-code").out.split())
    with suppress(FileNotFoundError):
        foreign.marker.unlink()


def _is_trusted() -> bool:
    """Return whether code that no command has trusted would be loaded now."""
    try:
        require_named([Code("somebody's.py", "")])
    except ForeignCodeError:
        return False
    return True


@pytest.mark.parametrize(
    ("words", "trusts"),
    [
        (("compare", "one", "two", *DB), True),
        (("leaderboard", *DB), True),
        (("run", "--model", "tiny", "--task", "rte", "--data", "mini", "--dry-run", *DB), False),
        (("predict", "nowhere", "rows.csv", *DB), False),
        (("check", "--model", "tiny", "--baseline", "nowhere.json"), False),
    ],
)
def test_36_trust_remote_code_covers_stored_metrics_only_in_reading_commands(victim, words, trusts):
    """Check that commands that run jobs trust only the code of these jobs."""
    begin(trust=not trusts)
    victim(*words, "--trust-remote-code")
    assert _is_trusted() == trusts


def test_36_trusted_run_loads_the_code_of_its_own_jobs_only(foreign):
    begin()
    job, other = (_job(foreign.owns[kind], foreign.home, "one", 9) for kind in ("archive", "file"))
    schedule = SimpleNamespace(todo=[job], jobs=[job])
    with pytest.raises(ForeignCodeError, match="no earlier command has allowed"):
        _require_trust(schedule, RunOptions())
    _require_trust(schedule, RunOptions(trust_remote_code=True))
    require_named(code_of(job.definition))
    with pytest.raises(ForeignCodeError):
        require_named(code_of(other.definition))
    begin()


NEEDED = {"minutes": 1.0, "suite": "glue", "trust_remote_code": True}
FUNCTIONS = [name for name in dir(bh) if isfunction(getattr(bh, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_36_trust_remote_code_applies_only_to_its_own_python_call(victim, name):
    function = getattr(bh, name)
    needed = [n for n, p in signature(function).parameters.items() if p.default is p.empty]
    begin(trust=True)
    with suppress(BenchError):
        function(**{each: NEEDED.get(each, "nowhere") for each in needed})
    assert not _is_trusted()


def test_36_python_argument_trust_remote_code_loads_untrusted_metric_code(victim, foreign):
    suite = foreign.owns["merged"].name.partition("/")[0]
    begin(trust=True)
    found = [
        bh.compare("one", "two", suite=suite, db="v.sqlite", trust_remote_code=trusts)
        for trusts in (False, True)
    ]
    assert SAID in found[0]["reason"][0]
    assert SAID not in found[1]["reason"][0]
    with suppress(FileNotFoundError):
        foreign.marker.unlink()
    begin()


def test_36_changed_metric_script_is_an_error_and_is_not_run(victim, foreign):
    script = foreign.home / "evil_file.py"
    script.write_text(script.read_text() + "\n# another line\n")
    load_script.cache_clear()
    words = ("compare", "one", "two", "--suite", foreign.owns["file"].name.partition("/")[0], *DB)
    ended = victim(*words, "--trust-remote-code")
    assert "has changed since this run was planned" in " ".join(ended.err.split())
    assert not foreign.marker.exists()
