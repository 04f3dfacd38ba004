"""Every file that a command writes, and all that is sent, has no path and no secret of the machine.

The command tree lists the writers: an option that takes a file, a folder or a repository is in
READS, or it stands in WRITERS with what uses it. A new one that is in neither fails here, as do a
new export format, a tracker, a name that the package exports, and a module that begins to write.
"""

import ast
import gzip
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest

import benchharness as bh
from benchharness import loggers
from benchharness.cli import model, which
from benchharness.cli.app import COMMANDS, load_command
from benchharness.cli.export import PREDICTIONS, PUSHED, Format
from benchharness.leaderboard import sharing
from benchharness.leaderboard.exports import cards
from benchharness.leaderboard.result import Failure
from benchharness.leaderboard.store.store import open_store
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.learned_engine import LearnedEngine
from tests.helpers.plans import write_rte

USER = "annabella-q"
TOKENS = {
    "HF_TOKEN": "hf_never_to_be_written",
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    "PGPASSWORD": "correct-horse-battery",
}
ROOT = Path(__file__).parents[2]


class _Engine(LearnedEngine):
    """Trains nothing; a failure and what is known of a run name places, as a real job's do."""

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


def _answered(evaluation):
    """The first label for rows whose own is hidden, which the engine leaves out."""
    rows = [each | {"label": each["label"] or "entailment"} for each in evaluation.predictions]
    return replace(evaluation, predictions=tuple(rows))


class _Tracker:
    """Keeps all that a tracker is given."""

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
    """Data, checkpoint, recipe and store in a folder that tells whose they are."""

    def __init__(self, root, bench, monkeypatch):
        self._bench, self.patch = bench, monkeypatch
        self.home = root / "home" / USER
        self.db = str(self.home / "results" / "board.sqlite")
        self.data = write_rte(self.home / "glue data", 24)
        test = [f"{n}\ttest a {n}\tb {n}" for n in range(3000)]  # as many as the official one has
        lines = ["index\tsentence1\tsentence2", *test, ""]
        (self.data / "RTE" / "test.tsv").write_text("\n".join(lines))
        self.encoder = save_checkpoint(self.home / "my-bert")
        (self.home / "mine.toml").write_text("[default]\nlearning_rate = 3e-5\n")
        lines = (f"a {word} film {n},{word}" for n in range(60) for word in ("good", "bad"))
        (self.home / "reviews.csv").write_text("\n".join(["text,label", *lines]) + "\n")

    def __call__(self, *words, codes=(0,)):
        ended = self._bench(*words)
        assert ended.code in codes, (words, ended.err)
        return ended.out

    def stored(self, *words, codes=(0,)):
        return self(*words, "--db", self.db, codes=codes)

    def run(self, command, *words, engine=_Engine, codes=(0,)):
        with self.patch.context() as patch:
            if engine is not None:
                patch.setattr("benchharness.engines.local.LocalEngine", lambda *_, **__: engine())
            names = ("--model", f"mine={self.encoder}", "--data", self.data, "--device", "cpu")
            exact = () if command == "check" else ("--precision", "fp32")
            return self(command, *names, *exact, *words, codes=codes)

    @property
    def kept(self):
        """The key of a run whose model is kept."""
        words = ("--seed", "7", "--set", "epochs=1", "--keep-models", "--no-baselines")
        self.run("run", "--task", "glue/rte", *words, "--db", self.db, engine=None)
        with open_store(self.db) as store:
            return next(run.key for run in store.runs() if run.seed == 7)


def runs(machine):
    found = SimpleNamespace(origin="here")
    machine.patch.setattr(loggers, "find_spec", lambda _: found)
    machine.patch.setattr(loggers, "LOGGERS", dict.fromkeys(loggers.LOGGERS, _Tracker))
    logs = [word for name in loggers.LOGGERS for word in ("--log", name)]
    recipe = ("--recipe", machine.home / "mine.toml")
    words = ("--task", "glue/rte", *recipe, "--seeds", "3", "--test", "--db", machine.db)
    machine.run("run", *words, *logs, "--out", "run.html", codes=(1,))


def pushed(machine):
    """What the hub's client is asked to send."""
    sent = Path("sent.txt").open("w")  # noqa: SIM115  (closed below)
    hub = SimpleNamespace(commit_url="there")
    machine.patch.setattr(cards, "go_offline_if_unreachable", lambda: False)

    def take(*words, **named):
        sent.write(repr((words, named)))
        return hub

    machine.patch.setattr(huggingface_hub.HfApi, "upload_file", take)
    machine.patch.setattr(huggingface_hub, "metadata_update", take)
    for form in PUSHED:
        machine.stored("export", "--push", "me/mine", "--format", form, "--model", "mine")
    sent.close()


def exports(machine):
    for form in Format:
        chosen = () if form not in cards_of() else ("--model", "mine")
        if form not in (Format.JSONL, Format.PARQUET):
            machine.stored("export", "--format", form, *chosen, "--out", f"scores.{form}")
        if form in PREDICTIONS or form is Format.EVERY_EVAL_EVER:
            words = ("--predictions", "--format", form, *chosen, "--out", f"predictions.{form}")
            machine.stored("export", *words)


def cards_of():
    return (Format.MODEL_INDEX, Format.EVAL_RESULTS, Format.EVERY_EVAL_EVER)


def predictions(machine):
    file = machine.home / "rows.jsonl"
    file.write_text('{"sentence1": "It rains.", "sentence2": "It is wet."}\n')
    machine.stored("predict", machine.kept, file, "--out", "answers.jsonl")


def check(machine):
    words = ("--model", "mine:paper", "--suite", "glue", "--allow-weak", "--out", "base.json")
    machine.stored("check", "--write", *words)
    words = ("--task", "glue/rte", "--baseline", "base.json", "--seeds", "3")
    machine.run("check", *words, "--junit", "v.xml", "--markdown", "v.md", codes=(1,))


def repair(machine):
    submit = ("submit", "--model", "mine", "--suite", "glue", "--fill", "--seed", "1")
    machine.stored(*submit, "--out", "glue.zip")
    with zipfile.ZipFile("glue.zip") as whole, zipfile.ZipFile("odd.zip", "w") as odd:
        for name in whole.namelist():
            odd.writestr(f"in/{name}", whole.read(name))
    machine("submit", "--repair", "odd.zip", "--out", "mended.zip")


def reports(machine):
    for words in (["--intervals"], ["--split"], ["--predictions", "--no-intervals"]):
        machine.stored("report", *words, "--out", f"page{words[0]}.html")


Writer = Callable[[Machine], object]
WRITERS: dict[str, Writer] = {
    "run --log": runs,
    "run --out": runs,
    "report --out": reports,
    "report predictions --out": lambda m: m.stored("report", "predictions", "mine", "--out", "every"),
    "export --out": exports,
    "export --push": pushed,
    "export --all": lambda m: m.stored("export", "--all", "all.jsonl.gz"),
    "paper --to": lambda m: m.run(
        *("paper", "--against", "majority", "--suite", "glue", "--skip-missing", "--seeds", "3"),
        *("--db", m.db, "--to", "paper"),
        codes=(1,),
    ),
    "check --write --out": check,
    "check --junit": check,
    "check --markdown": check,
    "submit --out": repair,
    "run --write-task --out": lambda m: m(
        "run", "--write-task", "--data-file", m.home / "reviews.csv", "--out", "task.py"
    ),
    "model --to": lambda m: m.stored("model", m.kept, "--to", "taken"),
    "predict --out": predictions,
}
"""By the option that says where: what writes there."""

SAME = {
    "which --to": (model.take_run, which.take_run),
    **{f"{name} --log": (loggers.Listening, loggers.Listening) for name in ("which", "paper")},
}
"""Options that the same function writes for as for another one."""

OWN = {"db backup file", "db merge other"}
"""A copy of the store that stays with its machine, and a store that is read."""

READS = {
    *("--data", "--data-file", "--hf", "--model", "--recipe", "--baseline", "--plugin", "--from"),
    *("--check", "--na-prob", "--variant", "--repair", "--db", "where", "files", "--start-from"),
    *("predict file", "db import file"),
}


def _contents(path):
    """What is in a file, unpacked."""
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
def test_no_written_file_has_a_path_or_a_secret(machine, tmp_path):
    written, found = set(), []
    for write, name in {write: name for name, write in WRITERS.items()}.items():
        import time; a=time.perf_counter(), time.process_time()
        write(machine)
        open("/tmp/paths/T","a").write(f"{name} {time.perf_counter()-a[0]:.1f} {time.process_time()-a[1]:.1f}\n")
        for path in set(Path().rglob("*")) - written:
            written.add(path)
            if not path.is_file():
                continue
            content = _contents(path)
            for secret in (USER, str(tmp_path), *TOKENS.values()):
                if (place := content.find(secret.encode())) >= 0:
                    found.append((name, str(path), content[max(0, place - 80) : place + 60]))
    assert not found
    names = {path.name for path in written}
    assert {"told.txt", "sent.txt", "v.xml", "all.jsonl.gz", "README.md", "answers.jsonl"} <= names
    assert "is not UTF-8" in Path("run.html").read_text(), "what the test looks for is there"
    assert "is not UTF-8" in Path("v.md").read_text()
    assert "is not UTF-8" in Path("told.txt").read_text()
    machine.stored("export", "--all", "whole.jsonl.gz", "--show-paths")
    assert str(machine.data).encode() in _contents(Path("whole.jsonl.gz"))
