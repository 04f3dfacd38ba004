import json
import os
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from benchharness import plugins as load
from benchharness.errors import BenchError
from benchharness.extensions.kept_models.load import load_trained
from benchharness.leaderboard.job import Job
from benchharness.loggers import METHODS
from benchharness.models import MODELS, find_model
from benchharness.models.weights import file_digest
from benchharness.plugins import VARIABLE, load_plugins, plugins_for, plugins_of
from benchharness.tasks import suites
from benchharness.tasks.suites import SUITES, TASKS, find_task
from benchharness.worker.job import run_job
from tests.helpers.doc_blocks import block, blocks
from tests.helpers.plans import plan_job, plan_jobs

SPEC = "from benchharness.models import ModelSpec\n"
PAIR = "from benchharness.tasks.glue import pair_task\n"
METRIC = "from benchharness.tasks.task import Metric\n"
OURS = """
from dataclasses import replace
from benchharness.tasks.suites import SUITES as SUITES_, TASKS as TASKS_
"""


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Reset the tables of plugins, before and after each test."""
    monkeypatch.setattr(load, "_loaded", {})
    monkeypatch.setattr(load, "entry_points", lambda group: ())
    monkeypatch.setenv(VARIABLE, "")
    tables = (MODELS, suites._tasks, suites._suites, load._loaded, sys.modules)
    kept = [(table, dict(table)) for table in tables]

    def call():
        for table, before in kept:
            for name in table.keys() - before.keys():
                file = str(getattr(table[name], "__file__", ""))
                if table is not sys.modules or "pytest-of" in file:
                    del table[name]
            if table is not sys.modules:
                table.update(before)
        os.environ[VARIABLE] = ""

    yield call
    call()


@pytest.fixture
def irony(tmp_path: Path) -> Path:
    """Write the plugin of the documentation, and rows for it in DATA."""
    file = tmp_path / "irony.py"
    file.write_text(next(block for block in blocks("plugins.md") if "TASKS = (IRONY,)" in block))
    folder = tmp_path / "DATA" / "Irony"
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        rows = [f"What lovely rain {n}.\t1\nIt rains {n}.\t0\n" for n in range(8)]
        (folder / f"{split}.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    return file


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def jobs(folder: Path) -> list[Job]:
    data = str(folder / "DATA")
    return plan_jobs("tiny", "mine/irony", data).jobs


# Objects that a plugin adds.


def test_task_definition_in_the_documentation_has_eight_lines():
    text = next(block for block in blocks("plugins.md") if "TASKS = (IRONY,)" in block)
    declaration = text[text.index("IRONY = ") : text.index("\n)\n") + 2]
    assert len(declaration.splitlines()) == 8


def test_task_of_a_plugin_registers_its_suite(irony: Path):
    load_plugins([irony])
    assert TASKS["mine/irony"].labels == ("plain", "ironic")
    assert SUITES["mine"].tasks == ("mine/irony",)
    assert SUITES["mine"].rule.cells == {"mine/irony": ("accuracy",)}
    assert os.environ[VARIABLE] == str(irony)
    load_plugins([irony])  # loading a plugin again has no effect


def test_plugin_models_and_metrics_in_the_documentation_can_be_loaded(tmp_path: Path):
    text = next(block for block in blocks("plugins.md") if "METRICS = " in block)
    load_plugins([write(tmp_path, text)])
    spec = find_model("mine-small")
    assert (spec.checkpoint, spec.family) == ("/models/mine-small", "bert")
    assert [metric.name for metric in find_task("glue/rte").details] == ["positive_share"]
    assert set(plugins_of(["glue/rte"])) == {"mine.py"}
    assert plugins_of(["glue/cola"]) == {}


def test_plugins_are_loaded_from_an_environment_variable(irony: Path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(irony))
    load_plugins()
    assert "mine/irony" in TASKS


def test_an_installed_package_can_be_a_plugin(irony: Path, monkeypatch):
    monkeypatch.syspath_prepend(str(irony.parent))
    point = EntryPoint(name="theirs", value="irony", group="benchharness.plugins")
    monkeypatch.setattr(load, "entry_points", lambda group: (point,))
    load_plugins()
    assert set(plugins_of(["mine/irony"])) == {"theirs"}
    assert os.environ[VARIABLE] == ""


# Job keys.


def test_the_key_of_a_job_includes_the_digest_of_its_plugin(irony: Path, monkeypatch):
    load_plugins([irony])
    (job,) = jobs(irony.parent)
    assert set(job.plugins) == {"irony.py"}
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job
    assert replace(job, plugins={"moved.py": job.plugins["irony.py"]}).key == job.key
    assert replace(job, plugins={"irony.py": "0" * 64}).key != job.key
    assert replace(job, plugins={}).key != job.key


def test_plugins_do_not_change_the_keys_of_built_in_tasks(irony: Path):
    before = plan_job("tiny", "cola", limit=8)
    load_plugins([irony])
    after = plan_job("tiny", "cola", limit=8)
    assert (before.key, before.plugins) == (after.key, {})


# Digests of the code.


MINE = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent))
LOGGERS = {"mine": dict}
"""


def digest_of(name: object, forget) -> str:
    """Return the digest of a plugin, as computed in another process."""
    forget()
    load_plugins([name] if isinstance(name, Path) else ())
    found = load._loaded[str(name)].digest
    forget()
    return found


@pytest.mark.parametrize(
    "line",
    [
        "import helper",
        "from helper import WORD",
        "from helper import *",
        "def later():\n    import helper",
        "from importlib import import_module\nimport_module('helper')",
        "exec((Path(__file__).parent / 'helper.py').read_text())",
        "import between",
        "import package.helper",
        "from package import helper",
        "from package.sub import WORD",
        "sys.path.insert(0, str(Path(__file__).parent / 'package'))\nimport helper_in_folder",
    ],
)
def test_changed_module_imported_by_a_plugin_changes_the_plugin_digest(
    tmp_path: Path, monkeypatch, forget, line: str
):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "package").mkdir()
    files = ["helper.py", "package/__init__.py", "package/helper.py", "package/sub.py"]
    helpers = [
        write(tmp_path, "WORD = 1\n", name) for name in [*files, "package/helper_in_folder.py"]
    ]
    write(tmp_path, "from helper import WORD\n", "between.py")
    write(tmp_path, "from .helper import WORD\n", "package/sub.py")
    file = write(tmp_path, f"{MINE}{line}\n")
    before = digest_of(file, forget)
    assert digest_of(file, forget) == before
    for helper in helpers:
        if helper.name != "sub.py":
            helper.write_text("WORD = 2\n")
    assert digest_of(file, forget) != before


def test_the_digest_of_a_plugin_package_includes_its_imported_modules(
    tmp_path: Path, monkeypatch, forget
):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "theirs_now" / "parts").mkdir(parents=True)
    lines = "from . import labels\nfrom .parts.words import WORD\nLOGGERS = {'mine': dict}\n"
    write(tmp_path, lines, "theirs_now/bench.py")
    names = ("__init__", "labels", "parts/__init__", "parts/words", "unused")
    helpers = {name: write(tmp_path, "WORD = 1\n", f"theirs_now/{name}.py") for name in names}
    point = EntryPoint(name="theirs", value="theirs_now.bench", group="benchharness.plugins")
    monkeypatch.setattr(load, "entry_points", lambda group: (point,))
    found = [digest_of("theirs", forget)]
    for helper in helpers.values():
        helper.write_text("WORD = 2\n")
        found.append(digest_of("theirs", forget))
    assert len(set(found[:-1])) == len(helpers)
    assert found[-1] == found[-2], "what it does not import is not its code"


def test_digest_of_a_plugin_without_own_imports_equals_the_digest_of_its_file(
    tmp_path: Path, monkeypatch, forget
):
    """Other modules and plugins do not change the digest, so stored keys remain valid."""
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path, "WORD = 1\n", "helper.py")
    alone = write(tmp_path, "import json\nimport numpy.linalg\nLOGGERS = {'a': dict}\n")
    other = write(tmp_path, "import helper\nLOGGERS = {'b': dict}\n", "other.py")
    load_plugins([other, alone])
    assert load._loaded[str(alone)].digest == file_digest(alone)
    assert load._loaded[str(other)].digest not in (file_digest(other), file_digest(alone))


def test_a_changed_helper_of_a_plugin_changes_the_keys_of_its_jobs(
    irony: Path, monkeypatch, forget
):
    monkeypatch.syspath_prepend(str(irony.parent))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    labels = write(irony.parent, 'LABELS = ("plain", "ironic")\n', "labels_of_irony.py")
    text = irony.read_text().replace('("plain", "ironic")', "LABELS")
    irony.write_text(f"from labels_of_irony import LABELS\n{text}")
    keys = []
    for comment in ("", "", "# other words\n"):
        labels.write_text(f'LABELS = ("plain", "ironic")\n{comment}')
        load_plugins([irony])
        keys += [job.key for job in jobs(irony.parent)]
        forget()
    assert keys[0] == keys[1] != keys[2]


# Kept models of tasks from plugins.


@pytest.fixture
def kept(irony: Path) -> Path:
    """Train a model on the plugin's task and return its folder."""
    load_plugins([irony])
    quick = {"epochs": "1", "batch_size": "16"}
    job = plan_job("tiny", "mine/irony", str(irony.parent / "DATA"), overrides=quick)
    run_job(job, keep=irony.parent / "kept")
    return irony.parent / "kept"


def test_a_kept_model_is_an_error_if_its_plugin_changed_the_labels(
    bench, irony: Path, kept: Path, forget
):
    rows = write(irony.parent, '{"remark": "It rains."}\n', "rows.jsonl")
    words = ("predict", kept, rows, "--plugin", irony)
    forget()
    answered = bench(*words)
    assert answered.code == 0, answered.err
    irony.write_text(irony.read_text().replace('("plain", "ironic")', '("ironic", "plain")'))
    forget()
    refused = bench(*words)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "irony.py) have changed since this model was trained" in refused.err
    # A plugin with the same code under another file name, and no plugin at all, are errors too.
    other = write(irony.parent, irony.read_text(), "other.py")
    forget()
    assert "have changed" in bench(*words[:-1], other).err
    forget()
    assert "irony.py) is not loaded. Pass its file with --plugin" in bench(*words[:-2]).err


def test_kept_model_predicts_without_the_plugin_of_its_metric(tmp_path: Path, forget):
    text = next(block for block in blocks("plugins.md") if "METRICS = " in block)
    file = write(tmp_path, text)
    load_plugins([file])
    quick = {"epochs": "1", "batch_size": "16"}
    job = plan_job("tiny", "glue/rte", overrides=quick, limit=8)
    assert set(job.plugins) == {"mine.py"}
    run_job(job, keep=tmp_path / "kept")
    for change in (lambda: None, lambda: load_plugins([write(tmp_path, text + "\n")])):
        forget()
        change()
        assert load_trained(tmp_path / "kept").task.name == "glue/rte"
    with pytest.raises(BenchError, match="have changed since this run was planned"):
        plugins_for(job)


# Invalid plugins.


@pytest.fixture
def installed(monkeypatch):
    """Remove checkouts from the path, which have folders of the old names."""
    outside = [path for path in sys.path if not (Path(path) / "tasks").is_dir()]
    monkeypatch.setattr("sys.path", outside)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tasks"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1 / 0\n", "mine.py raises ZeroDivisionError in line 1 of mine.py: division by zero."),
        ("import no_such_module\n", "raises ModuleNotFoundError in line 1 of mine.py: No module"),
        (
            "from tasks.glue import pair_task\n",
            "imports tasks, which is now called benchharness.tasks. Write `from ",
        ),
        (
            "import leaderboard.result\n",
            "imports leaderboard, which is now called benchharness.leaderboard. Write `from ",
        ),
        ("import tasks_of_mine\n", "raises ModuleNotFoundError in line 1 of mine.py: No module"),
        ("x = (\n", "raises SyntaxError: '(' was never closed (mine.py, line 1)."),
        ("raise SystemExit(3)\n", "raises SystemExit in line 1 of mine.py: 3."),
        (
            "x = 1\n",
            "adds nothing: expected it to define MODELS or TASKS or SUITES or METRICS or LOGGERS.",
        ),
        (
            "TASKS = 'mine/irony'\n",
            "TASKS of the plugin {file} contains a str: expected a list of Task.",
        ),
        (
            "MODELS = [1]\n",
            "MODELS of the plugin {file} contains a int: expected a list of ModelSpec.",
        ),
        (
            SPEC + "MODELS = [ModelSpec(name=['a'], checkpoint='/x')]\n",
            "MODELS of the plugin {file} has a ModelSpec whose name is ['a'], expected str.",
        ),
        (
            SPEC + "MODELS = [ModelSpec(name='a', checkpoint='/x', aliases=(3,))]\n",
            "has a ModelSpec whose aliases is (3,), expected tuple[str, ...].",
        ),
        (
            OURS + "TASKS = [replace(TASKS_['glue/cola'], name='mine/cola', cite=None)]\n",
            "TASKS of the plugin {file} has a Task whose cite is None, expected str.",
        ),
        (
            OURS + "cola = TASKS_['glue/cola']\n"
            "TASKS = [replace(cola, name='mine/cola', metrics=cola.metrics[0])]\n",
            "expected tuple[Metric[PairPrediction, PairExample], ...].",
        ),
        (
            OURS + "TASKS = [replace(TASKS_['glue/cola'], name='mine/cola', metrics=())]\n",
            "the task 'mine/cola' has no metrics: expected one or more.",
        ),
        (
            OURS + "TASKS = [replace(TASKS_['glue/cola'], name='mine/cola')]\n"
            "rule = replace(SUITES_['glue'].rule, cells={'mine/cola': ('f1',)})\n"
            "SUITES = [replace(SUITES_['glue'], name='mine', tasks=('mine/cola',), rule=rule)]\n",
            "the suite 'mine' uses the score 'f1', which mine/cola does not have: expected one",
        ),
        (
            METRIC + "METRICS = {'glue/rte': [Metric(name='a', compute=len, bounds=(1,))]}\n",
            "has a Metric whose bounds is (1,), expected tuple[float, float].",
        ),
        (
            METRIC + "METRICS = {'glue/rte': [Metric(name='a', compute=0.5)]}\n",
            "has a Metric whose compute is 0.5, expected Callable",
        ),
        (
            METRIC + "METRICS = {'glue/rte': [Metric(name='a', compute=len)] * 2}\n",
            "glue/rte already has a metric 'a': choose another name",
        ),
        (
            PAIR
            + "pair_task(name='a/b', folder='', texts={}, labels='no', label_texts=[0], metrics=0)",
            "the task 'a/b' has 2 labels but 1 label_texts: expected one text",
        ),
        (
            "METRICS = [1]\n",
            "METRICS of the plugin {file} is a list: expected lists of metrics, keyed by",
        ),
        ("METRICS = {'glue/rte': 3}\n", "contains a int: expected a list of Metric."),
        (
            "METRICS = {'glue/rtee': []}\n",
            "cannot be added: no task is called 'glue/rtee'. Did you",
        ),
        (
            "from benchharness.tasks.metrics import accuracy\nMETRICS = {'glue/rte': [accuracy]}\n",
            "glue/rte already has a metric 'accuracy': choose another name",
        ),
        (
            SPEC + "MODELS = [ModelSpec(name='Tiny', checkpoint='/x')]\n",
            "a model called 'tiny' exists already: give the new model another name.",
        ),
        (
            OURS + "TASKS = [TASKS_['glue/cola']]\n",
            "a suite 'glue' already exists: choose another name",
        ),
        (
            OURS + "TASKS = [replace(TASKS_['glue/cola'], name='mine/Cola')]\n",
            "the task name 'mine/Cola' does not fit the suite 'mine'",
        ),
        (
            OURS + "SUITES = [replace(SUITES_['swag'], name='mine')]\n",
            "the suite 'mine' refers to the task 'swag/regular', but does not contain it",
        ),
    ],
)
def test_an_invalid_plugin_is_reported_in_one_sentence(
    tmp_path: Path, installed, text: str, sentence: str
):
    file = write(tmp_path, text)
    with pytest.raises(BenchError) as caught:
        load_plugins([file])
    assert sentence.format(file=file) in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_import_from_the_renamed_package_tasks_gets_a_hint_even_if_a_module_tasks_exists(
    tmp_path: Path, installed, monkeypatch
):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tasks.py").write_text("mine = 1\n")
    file = write(tmp_path, "from tasks import mine\nfrom tasks.glue import pair_task\n")
    with pytest.raises(BenchError, match=r"tasks\.glue, which is now called benchharness.tasks"):
        load_plugins([file])
    monkeypatch.delitem(sys.modules, "tasks")


def test_missing_plugin_file_or_package_is_an_error(tmp_path: Path):
    for name in ("nowhere.py", "."):
        with pytest.raises(BenchError, match=r"there is no plugin .*\. Pass the path of a Python"):
            load_plugins([tmp_path / name])


# The command line.


def test_option_plugin_makes_the_task_of_a_plugin_known_to_a_command(bench, irony: Path):
    listed = json.loads(bench("show", "tasks", "--plugin", irony, "--suite", "mine", "--json").out)
    assert [row["name"] for row in listed] == ["mine/irony"]
    assert bench("show", "tasks", "--plugin", "gone.py").code == 2


def test_task_of_a_plugin_runs_in_a_worker_and_is_on_a_leaderboard(bench, irony: Path, monkeypatch):
    monkeypatch.chdir(irony.parent)
    words = ("--plugin", "irony.py", "--db", "board.sqlite")
    ended = bench(
        "run", *words, "--model", "bag-of-words", "--task", "mine/irony", "--data", "DATA"
    )
    assert ended.code == 0, ended.err
    again = f"`bench leaderboard --suite mine --db board.sqlite --plugin {irony}`"
    assert f"{again} prints the leaderboard" in ended.out
    (board,) = json.loads(bench("leaderboard", *words, "--suite", "mine", "--json").out)
    scores = {entry["model"]: entry["score"] for entry in board["entries"]}
    assert scores == {"bag-of-words": 1.0, "majority": 0.5}
    (key,) = board["entries"][0]["tasks"]["mine/irony"]["keys"]
    stored = json.loads(bench("show", key, "--db", "board.sqlite", "--json").out)
    assert set(stored["provenance"]["plugins"]) == {"irony.py"}


def test_job_is_an_error_if_its_plugin_has_changed_since_planning(irony: Path):
    load_plugins([irony])
    (job,) = jobs(irony.parent)
    plugins_for(job)
    with pytest.raises(BenchError, match="have changed"):
        plugins_for(replace(job, plugins={"irony.py": "0" * 64}))


# Loggers.


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Write the plugin of docs/loggers.md."""
    return write(tmp_path, block("loggers.md", "LOGGERS ="), "lines.py")


def test_plugin_logger_in_the_documentation_gets_all_events(bench, lines: Path):
    asked = ("--model", "majority", "--task", "glue/rte", "--data", "mini", "--limit", "8")
    ended = bench("run", "--plugin", lines, "--log", "lines", *asked)
    assert ended.code == 0, ended.err
    assert "--log lines: results/runs.jsonl" in ended.err
    told = [json.loads(line) for line in Path("results/runs.jsonl").read_text().splitlines()]
    assert [sorted(line) for line in told if "name" in line] == [["config", "key", "name"]] * 2
    ends = [line for line in told if "failed" in line]
    assert {line["failed"] for line in ends} == {False}
    assert all("scores/glue/rte:dev/accuracy" in line["facts"] for line in ends)
    assert plugins_of(["glue/rte"]) == {}, "a logger is part of no key"


def test_plugin_logger_that_raises_does_not_stop_the_run(bench, tmp_path: Path):
    methods = "".join(f"    def {name}(self, *a, **o): 1 / 0\n" for name in METHODS)
    text = f"class Bad:\n    def __init__(self, folder): pass\n{methods}LOGGERS = {{'bad': Bad}}\n"
    file = write(tmp_path, text)
    asked = ("--model", "majority", "--task", "glue/rte", "--data", "mini", "--limit", "8")
    ended = bench("run", "--plugin", file, "--log", "bad", *asked)
    assert ended.code == 0
    assert "--log bad failed" in ended.err


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        (
            "LOGGERS = [1]\n",
            (),
            "LOGGERS of the plugin {file} is a list: expected classes, keyed by a name",
        ),
        ("LOGGERS = {'a': 'A'}\n", (), "{file} contains a str under 'a': expected classes"),
        (
            "LOGGERS = {'wandb': dict}\n",
            (),
            "logger is called 'wandb', like a logger of benchharness",
        ),
        (
            "class A:\n    def begin(self, run): pass\nLOGGERS = {'a': A}\n",
            ("--log", "a"),
            "the logger 'a' of a plugin has no log and no end and no close method. docs/loggers.md",
        ),
        ("LOGGERS = {'lines': dict}\n", ("--log", "line"), "Did you mean 'lines'?"),
    ],
)
def test_an_invalid_logger_is_reported_in_one_sentence(
    bench, tmp_path: Path, text: str, words: tuple[str, ...], sentence: str
):
    file = write(tmp_path, text)
    ended = bench("run", "--plugin", file, "--model", "tiny", "--task", "glue/rte", *words)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert sentence.format(file=file) in ended.err


def test_two_plugins_with_the_same_logger_name_are_an_error(lines: Path, tmp_path: Path):
    again = write(tmp_path, lines.read_text(), "again.py")
    with pytest.raises(BenchError, match="a logger called 'lines' exists already"):
        load_plugins([lines, again])
