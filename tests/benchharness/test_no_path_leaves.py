"""Tests that no file that a command writes or sends has a local path or a secret.

Every option that takes a file, a folder or a repository is in READS, or in WRITERS with a function
that uses it. A new option that is in neither fails here, as do a new export format, a tracker, a
public name of the package, and a module that begins to write files.
"""

import ast
import gzip
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest

import benchharness as bh
from benchharness import loggers
from benchharness.cli import run
from benchharness.cli.app import load_command
from benchharness.cli.commands import commands
from benchharness.extensions.custom_data import metrics
from benchharness.extensions.demo import command as demo
from benchharness.extensions.exports import cards
from benchharness.extensions.exports.command import PREDICTIONS, PUSHED, Format
from benchharness.extensions.kept_models import command as model
from benchharness.extensions.submission import inspection
from benchharness.extensions.submission import write as submission
from benchharness.extensions.which import command as which
from benchharness.leaderboard import sharing
from benchharness.leaderboard.result import Failure
from benchharness.leaderboard.store.store import open_store
from benchharness.worker.job import run_job
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.extensions import of_extensions
from tests.helpers.learned_engine import LearnedEngine
from tests.helpers.plans import write_rte
from tests.helpers.small_submissions import ROWS, shrink_all

USER = "annabella-q"
TOKENS = {
    "HF_TOKEN": "hf_never_to_be_written",
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    "PGPASSWORD": "correct-horse-battery",
}
ROOT = Path(__file__).parents[2]


class _Engine(LearnedEngine):
    """An engine without training, whose failures and provenance contain paths as real ones do."""

    def __init__(self):
        super().__init__({})

    def _result(self, job, share):
        self._shares = {job.task: 0.8}
        found, place = super()._result(job, 0.8), f"{job.data}/RTE/dev.tsv"
        if job.seed == 3 and job.kind == "model":
            return Failure.of(job, "failed", f"{place} is not UTF-8.", f'File "{place}", line 3')
        noted = {**found.provenance, "note": f"file://{place}", "home": str(Path.home())}
        evaluations = tuple(map(_answered, found.evaluations))
        return replace(found, provenance=noted, evaluations=evaluations)

    def run(self, jobs, report):
        listed = list(jobs)
        self._shares = dict.fromkeys({job.task for job in listed}, 0.8)
        return super().run(listed, report)


class _Trainer:
    """An engine that trains in this process and keeps the models."""

    def __init__(self, folder):
        self._folder = folder

    def run(self, jobs, report):
        return (run_job(job, keep=self._folder / job.key) for job in jobs)


def _answered(evaluation):
    """Give rows with a hidden label the first label, because the engine leaves it out."""
    rows = [each | {"label": each["label"] or "entailment"} for each in evaluation.predictions]
    return replace(evaluation, predictions=tuple(rows))


class _Tracker:
    """A tracker that stores everything it gets."""

    place = "nowhere"

    def __init__(self, folder):
        pass

    def begin(self, run):
        self._keep(run)

    def log(self, *words):
        self._keep(words)

    def end(self, key, facts, *, failed):
        self._keep((key, facts, failed))

    def close(self):
        self._keep("the end")

    def _keep(self, told):
        with Path("told.txt").open("a") as file:
            file.write(f"{told!r}\n")


class Machine:
    """Data, checkpoint, recipe and database in a folder that identifies the user."""

    def __init__(self, root, bench, monkeypatch):
        self._bench, self.patch = bench, monkeypatch
        self.home = root / "home" / USER
        self.db = str(self.home / "results" / "board.sqlite")
        self.data = write_rte(self.home / "glue data", 24)
        # As many rows as a submission needs.
        test = [f"{n}\ttest a {n}\tb {n}" for n in range(ROWS)]
        lines = ["index\tsentence1\tsentence2", *test, ""]
        (self.data / "RTE" / "test.tsv").write_text("\n".join(lines))
        self.encoder = save_checkpoint(self.home / "my-bert")
        (self.home / "mine.toml").write_text("[default]\nlearning_rate = 3e-5\n")
        lines = (f"a {word} film {n},{word}" for n in range(60) for word in ("good", "bad"))
        (self.home / "reviews.csv").write_text("\n".join(["text,label", *lines]) + "\n")

    def __call__(self, *words, codes=(0,), err=False):
        ended = self._bench(*words)
        assert ended.code in codes, (words, ended.err)
        return ended.err if err else ended.out

    def stored(self, *words, codes=(0,)):
        return self(*words, "--db", self.db, codes=codes)

    def run(self, command, *words, engine=_Engine, codes=(0,), data=("--data",)):
        with self.patch.context() as patch:
            patch.setattr("benchharness.engines.local.LocalEngine", lambda *_, **__: engine())
            rows = (*data, self.data) if data == ("--data",) else data
            names = ("--model", f"mine={self.encoder}", *rows, "--device", "cpu")
            exact = () if command == "check" else ("--precision", "fp32")
            return self(command, *names, *exact, *words, codes=codes)

    @property
    def kept(self):
        """The key of a trained run whose model is kept."""
        models = Path(self.db).with_name("models")
        words = ("--seed", "7", "--set", "epochs=1", "--no-baselines", "--db", self.db)
        self.run("run", "--task", "glue/rte", *words, engine=partial(_Trainer, models))
        with open_store(self.db) as store:
            return next(run.key for run in store.runs() if run.seed == 7)

    @property
    def scored_by_script(self):
        """The key of a trained run on custom data that is scored by a script of the user."""
        script = self.home / "my metrics" / "mine.py"
        script.parent.mkdir()
        script.touch()
        loaded = SimpleNamespace(
            features={"predictions": SimpleNamespace(dtype="int32")},
            compute=lambda predictions, references: {"mine": float(predictions == references)},
        )
        self.patch.setattr(metrics, "load_script", lambda *_: loaded)
        self.patch.setattr(metrics, "script_digest", lambda _: "5" * 64)
        rows = (
            "--data-file",
            self.home / "reviews.csv",
            "--metric",
            f"evaluate:{script},score=mine",
        )
        words = ("--seed", "8", "--set", "epochs=1", "--limit", "16", "--no-baselines")
        engine = partial(_Trainer, Path(self.db).with_name("models"))
        self.run("run", *words, "--db", self.db, engine=engine, data=rows)
        with open_store(self.db) as store:
            return next(run.key for run in store.runs() if run.seed == 8)


def runs(machine):
    found = SimpleNamespace(origin="here")
    machine.patch.setattr(loggers, "find_spec", lambda _: found)
    names = loggers.places("loggers")
    machine.patch.setattr(loggers, "member", lambda *_: _Tracker)
    logs = [word for name in names for word in ("--log", name)]
    recipe = ("--recipe", machine.home / "mine.toml")
    words = ("--task", "glue/rte", *recipe, "--seeds", "3", "--test", "--db", machine.db)
    machine.run("run", *words, *logs, "--out", "run.html", codes=(1,))


def all_runs(machine):
    runs(machine)
    words = ("--collapsed-too", "--to", "scored")
    machine.stored("model", machine.scored_by_script, *words)


def pushed(machine):
    """Write the data that the hub's client is asked to send."""
    sent = Path("sent.txt").open("w")  # noqa: SIM115  (closed below)
    hub = SimpleNamespace(commit_url="there")
    machine.patch.setattr(cards, "go_offline_if_unreachable", lambda: False)

    def take(*words, **named):
        sent.write(repr((words, named)))
        return hub

    machine.patch.setattr(huggingface_hub.HfApi, "upload_file", take)
    machine.patch.setattr(huggingface_hub, "metadata_update", take)
    for form in PUSHED:
        words = ("--format", form, "--model", "mine", "--collapsed-too")
        machine.stored("export", "--push", "me/mine", *words)
    sent.close()


def exports(machine):
    for form in Format:
        chosen = () if form not in cards_of() else ("--model", "mine")
        if form in (Format.MODEL_INDEX, Format.EVAL_RESULTS):
            chosen = (*chosen, "--collapsed-too")
        if form not in (Format.JSONL, Format.PARQUET):
            machine.stored("export", "--format", form, *chosen, "--out", f"scores.{form}")
        if form in PREDICTIONS:
            words = ("--predictions", "--format", form, *chosen, "--out", f"predictions.{form}")
            machine.stored("export", *words)


def cards_of():
    return (Format.MODEL_INDEX, Format.EVAL_RESULTS)


def predictions(machine):
    file = machine.home / "rows.jsonl"
    file.write_text('{"sentence1": "It rains.", "sentence2": "It is wet."}\n')
    machine.stored("predict", machine.kept, file, "--out", "answers.jsonl")


def check(machine):
    sides = ("--suite", "glue", "--skip-missing", "--seeds", "3", "--no-baselines")
    machine.run("run", *sides, "--db", machine.db, codes=(0, 1))
    words = ("--model", "mine:paper", "--suite", "glue", "--allow-weak", "--out", "base.json")
    machine.stored("check", "--write", *words)
    words = ("--task", "glue/rte", "--baseline", "base.json", "--seeds", "3")
    machine.run("check", *words, "--junit", "v.xml", "--markdown", "v.md", codes=(1,))


def repair(machine):
    shrink_all(machine.patch)
    machine.patch.setattr(submission, "SUBMISSIONS", inspection.SUBMISSIONS)
    submit = ("submit", "--model", "mine", "--suite", "glue", "--fill", "--seed", "1")
    machine.stored(*submit, "--out", "glue.zip")
    with zipfile.ZipFile("glue.zip") as whole, zipfile.ZipFile("odd.zip", "w") as odd:
        for name in whole.namelist():
            odd.writestr(f"in/{name}", whole.read(name))
    machine("submit", "--repair", "odd.zip", "--out", "mended.zip")


def reports(machine):
    for words in (["--intervals"], ["--split"], ["--predictions", "--no-intervals"]):
        machine.stored("report", *words, "--out", f"page{words[0]}.html")


def task_file(machine):
    Path("mine.py").touch()  # the metric script, next to the task file that refers to it
    words = ("--data-file", machine.home / "reviews.csv", "--metric", "evaluate:mine.py,score=mine")
    machine("run", "--write-task", *words, "--out", "task.py")


Writer = Callable[[Machine], object]


def paper(m):
    sides = ("--against", "majority", "--suite", "glue", "--skip-missing", "--seeds", "3")
    m.run("paper", *sides, "--db", m.db, "--to", "paper", codes=(1,))


def shared(m):
    m("share", "init", "board")
    m.stored("share", "add", "mine:paper", "--suite", "glue", "--as", "ada", "--to", "board")
    m("share", "build", "board", "--out", "site")
    words = ("--reproduce", "100%", "--minutes", "0", "--comment", "c.md", "--verdicts", "v.json")
    m("share", "check", "board", *words, codes=(0, 1))


OF_SHARE = ("init folder", "add --to", "check --comment", "check --verdicts", "build --out")

WRITERS: dict[str, Writer] = {
    "run --log": all_runs,
    "run --out": all_runs,
    "report --out": reports,
    "report predictions --out": lambda m: m.stored(
        "report", "predictions", "mine", "--out", "every"
    ),
    "export --out": exports,
    "export --push": pushed,
    "export --all": lambda m: m.stored("export", "--all", "all.jsonl.gz"),
    "check --write --out": check,
    "check --junit": check,
    "check --markdown": check,
    "submit --out": repair,
    "run --write-task --out": task_file,
    "model --to": lambda m: m.stored("model", m.kept, "--to", "taken"),
    "predict --out": predictions,
    **of_extensions(
        {
            "paper": {"paper --to": paper},
            "sheet": {
                "sheet --out": lambda m: m.stored("sheet", m.kept, "--out", "sheet.html"),
            },
            "share": {f"share {option}": shared for option in OF_SHARE},
        }
    ),
}
"""Functions that write files, keyed by the option that sets the path."""

SAME = {
    "demo --out": (run.run, demo.run),
    "which --to": (model.take_run, which.take_run),
    "which --log": (loggers.Listening, loggers.Listening),
    **of_extensions({"paper": {"paper --log": (loggers.Listening, loggers.Listening)}}),
}
"""Options whose files are written by the function of another option."""

OWN = {"db backup file", "db merge other"} | {
    f"{name} --write-config" for name in ("run", "which", "paper", "check")
}
"""Options for a backup of the store, which stays on its machine, for a store that is read, and for
the options of a command as they were typed."""

READS = {
    *("--data", "--data-file", "--hf", "--model", "--recipe", "--baseline", "--plugin", "--from"),
    *("--check", "--na-prob", "--variant", "--repair", "--db", "where", "files", "--start-from"),
    *("predict file", "db import file", "show config file", "sheet name"),
    *("--config", "--checkpoint", "--merge", "--sets-data"),
    *("share check folder", "share build folder"),
}


def _contents(path):
    """Return the content of a file, unpacked."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as file:
            return b"".join([name.encode() + file.read(name) for name in file.namelist()])
    return path.read_bytes()


@pytest.fixture
def machine(bench, tmp_path, monkeypatch):
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    made = Machine(tmp_path, bench, monkeypatch)
    for cached in (sharing._home, sharing._users):
        cached.cache_clear()
    monkeypatch.setenv("HOME", str(made.home))
    public = tmp_path / "public"
    public.mkdir()
    monkeypatch.chdir(public)
    yield made
    monkeypatch.undo()
    for cached in (sharing._home, sharing._users):
        cached.cache_clear()


@pytest.mark.slow
def test_written_files_have_no_local_path_and_no_secret(machine, tmp_path):
    written, found = set(), []
    for write, name in {write: name for name, write in WRITERS.items()}.items():
        write(machine)
        for path in set(Path().rglob("*")) - written:
            written.add(path)
            if not path.is_file():
                continue
            content = _contents(path)
            found += [
                (name, str(path), content[max(0, place - 80) : place + 60])
                for secret in (USER, str(tmp_path), *TOKENS.values())
                if (place := content.find(secret.encode())) >= 0
            ]
    assert not found
    names = {path.name for path in written}
    assert {"told.txt", "sent.txt", "v.xml", "all.jsonl.gz", "README.md", "answers.jsonl"} <= names
    assert "is not UTF-8" in Path("run.html").read_text(), "what the test looks for is there"
    assert "'evaluate:' + str(HERE / 'mine.py') + ',score=mine'" in Path("task.py").read_text()
    assert "evaluate:mine.py#" in Path("scored/benchharness.json").read_text()
    assert "is not UTF-8" in Path("v.md").read_text()
    assert "is not UTF-8" in Path("told.txt").read_text()
    assert "base_model" not in Path("taken/README.md").read_text(), "a folder's name is no hub's"
    (Path("taken/onnx")).mkdir()
    (Path("taken/onnx") / "model.onnx").touch()
    ended = machine("model", "taken", "--check", codes=(4,), err=True)
    assert "contains only a shortened path, glue data#" in ended
    assert "pass the full path as --rows" in ended
    machine.stored("export", "--all", "whole.jsonl.gz", "--show-paths")
    for path in (machine.data, machine.home / "my metrics/mine.py"):
        assert str(path).encode() in _contents(Path("whole.jsonl.gz"))


PLACE = re.compile(r"\b(FILE|DIR|PATH|ORG)\b")


def _places():
    """Yield each option or argument of a command that takes a file, a folder or a repository."""
    for name, line in commands().items():
        for param in load_command(name).params if line.place else ():
            flag = param.opts[0] if param.opts[0].startswith("-") else param.name
            metavar = param.metavar or ""
            if PLACE.search(metavar) or f"{name} {flag}" in OWN or flag in ("--log", "--to"):
                yield name, flag


def test_every_option_that_writes_files_is_tested_for_local_paths():
    known = {*WRITERS, *SAME, *OWN}
    places = {(name, flag): f"{name} {flag}" for name, flag in _places()}
    free = {
        said
        for (_, flag), said in places.items()
        if flag not in READS and said not in READS and said not in known
    }
    assert not free, "hold what they write by WRITERS, or say that they read"
    assert known <= {*places.values()}
    assert all(one is other for one, other in SAME.values())


WRITING = {
    "benchharness/extensions/gate/command.py": "check --junit",
    "benchharness/extensions/exports/command.py": "export --out",
    "benchharness/extensions/kept_models/predict_command.py": "predict --out",
    "benchharness/extensions/database/command.py": "a copy of deleted runs, which stays",
    "benchharness/extensions/submission/command.py": "submit --out",
    "benchharness/extensions/custom_data/command.py": "run --write-task --out",
    "benchharness/extensions/run_file/options.py": "options as they were typed",
    "benchharness/extensions/kept_models/card.py": "model --to",
    "benchharness/extensions/kept_models/onnx_files.py": "model --to",
    "benchharness/extensions/kept_models/sheet.py": "model --to",
    "benchharness/extensions/kept_models/save_pretrained.py": "model --to",
    "benchharness/encoder/tokenizer.py": "model --to",
    "leaderboard/report/write.py": "report --out",
    "leaderboard/store/archive.py": "export --all",
    "leaderboard/store/database.py": "a copy of the store, which stays",
    "benchharness/extensions/submission/inspection.py": "submit --out",
    **of_extensions(
        {
            "paper": {"benchharness/extensions/paper/folder.py": "paper --to"},
            "hub_results": {"benchharness/extensions/hub_results/export_option.py": "export --out"},
            "share": {
                "benchharness/extensions/share/repository.py": "share add --to",
                "benchharness/extensions/share/sample.py": "share check --verdicts",
                "benchharness/extensions/share/command.py": "share check --comment",
            },
        }
    ),
}
"""Modules that write files for users, keyed by the option that sets the path."""

OF_THE_MACHINE = {
    *(f"benchharness/{name}.py" for name in ("kept_folders",)),
    *(f"benchharness/extensions/clusters/{name}.py" for name in ("ray", "slurm")),
    *(f"benchharness/models/{name}.py" for name in ("converted", "pickles")),
    *(f"benchharness/worker/{name}.py" for name in ("__init__", "__main__", "checkpoint")),
    *("benchharness/training/snapshots.py", "benchharness/heads/tokens.py"),
    "benchharness/extensions/frozen/layer_states.py",
    *("benchharness/api.py", "benchharness/driver/live.py", "leaderboard/text.py"),
    *of_extensions(
        {
            "reproduce": {"benchharness/extensions/reproduce/rounds.py": "a round"},
            "estimator": {
                f"benchharness/extensions/estimator/{name}.py": "a temporary folder"
                for name in ("kept", "rows")
            },
        }
    ),
}
"""Modules that write files for this machine only: caches, running jobs, kept models."""


def _writes(call):
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    words = [word.value for word in call.args if isinstance(word, ast.Constant)]
    is_opened = name == "open" and any(re.fullmatch(r"[wax]\+?b?|[wax]b\+?", str(w)) for w in words)
    return is_opened or name in ("whole_file", "write_text", "write_bytes", "writestr")


def test_every_module_that_writes_files_is_listed_in_this_test():
    found = set()
    for folder in ("benchharness", "leaderboard", "tasks"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            if not re.search(r"whole_file|write_|writestr|open\(", text):
                continue
            calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
            if any(map(_writes, calls)):
                found.add(str(path.resolve().relative_to(ROOT)))
    assert found >= OF_THE_MACHINE
    assert found - OF_THE_MACHINE == WRITING.keys(), "say which option it writes for, and hold it"
    assert {each for each in WRITING.values() if "--" in each} <= WRITERS.keys()


def _shown(found):
    """Yield everything that a notebook or a file would show of a value."""
    yield repr(found)
    if hasattr(found, "_repr_html_"):
        yield found._repr_html_()
    for frame in (found, getattr(found, "frame", lambda: None)()):
        if hasattr(frame, "to_csv"):
            yield frame.to_csv()
            yield repr(getattr(frame, "attrs", ""))


def _first(machine):
    with open_store(machine.db) as store:
        return next(run.key for run in store.runs() if run.model == "mine" and not run.error)


PYTHON = {
    "runs": lambda m: bh.runs(m.db),
    "boards": lambda m: bh.boards(db=m.db)[0],
    "board": lambda m: bh.board("glue", db=m.db),
    "compare": lambda m: bh.compare("mine", "majority", db=m.db),
    "predictions": lambda m: bh.predictions(_first(m), db=m.db),
    "curve": lambda m: bh.curve(_first(m), db=m.db),
    "published": lambda _: bh.published("glue"),
    **of_extensions(
        {"explanation": {"explain": lambda m: bh.explain(_first(m), _first(m), db=m.db)}}
    ),
}
"""Python functions that return parts of a store; others train, read rows or are listed above."""

BY_OTHERS = {"BenchCallback", "BenchError", "BoardTable", "Choice", "Results", "__version__"}
BY_OTHERS |= {"load", "model", "predict", "run", "score", "which"}
BY_OTHERS |= of_extensions(
    {
        "paper": {"paper": "--to"},
        "estimator": {"Classifier": "its model is in a temporary folder"},
        "calibration": {"calibration": "needs probabilities, which these runs lack"},
    }
).keys()


def test_python_results_have_no_local_path(machine):
    runs(machine)
    assert {*dir(bh)} == PYTHON.keys() | BY_OTHERS
    for name, ask in PYTHON.items():
        said = "\n".join(map(str, _shown(ask(machine))))
        assert not [word for word in (USER, *TOKENS.values()) if word in said], (name, said)
    with open_store(machine.db) as store:
        keys = tuple(run.key for run in store.runs())
    found = bh.api.Results(keys=keys, db="x.sqlite", suites=("glue",))
    machine.patch.chdir(Path(machine.db).parent)
    shown = "\n".join(_shown(replace(found, db="board.sqlite")))
    assert USER not in shown
    assert "glue data#" in shown


def test_import_of_an_archive_with_redacted_paths_adds_no_stored_run_again(machine):
    all_runs(machine)
    machine.stored("export", "--all", "all.jsonl.gz")
    assert "0 of 6 runs added, already stored: 6" in machine.stored("db", "import", "all.jsonl.gz")
    assert "6 of 6 runs added" in machine("db", "import", "all.jsonl.gz", "--db", "other.sqlite")
    machine("export", "--all", "back.jsonl.gz", "--db", "other.sqlite")
    assert "0 of 6 runs added" in machine.stored("db", "import", "back.jsonl.gz")
    places = {str(machine.data), str(machine.home / "reviews.csv")}
    with open_store(machine.db) as store:
        assert {run.data for run in store.runs()} == places
