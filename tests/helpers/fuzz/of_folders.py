"""Readers of folders with a kept model of a run, or the output of a Trainer."""

import hashlib
import json
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import open_store
from tests.helpers.extensions import of_extensions
from tests.helpers.fuzz.reader import Case, Reader
from tests.helpers.results import make_result

TASKS = ("glue/sst2", "squad/v2.0", "conll2003/ner")
"""Tasks with three kinds of predictions: a class, a span, tags."""

SMALL = {"vocab_size": 2000, "hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8}
"""Config fields of a small encoder."""

DAMAGED = (
    *("config.json", "tokenizer.json", "tokenizer_config.json", "job.json", "manifest.json"),
    *("model.safetensors", "head.safetensors"),
)
"""Files of a kept model; one of them is damaged at a time."""


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@cache
def _kept(task: str) -> dict[str, bytes]:
    """Return a kept model of some kilobytes; small, because damage may repeat its files often."""
    from benchharness.worker.job import run_job
    from tests.helpers.checkpoints import save_checkpoint
    from tests.helpers.mini_jobs import make_job

    with TemporaryDirectory() as home:
        save_checkpoint(Path(home) / "small", **SMALL)
        run_job(make_job(task, 8, str(Path(home) / "small")), keep=Path(home) / "model")
        return _files(Path(home) / "model")


def _models() -> list[Case]:
    return [
        Case(content=_kept(task)[name], read=partial(_ask, task, name))
        for task in TASKS
        for name in DAMAGED
    ]


def _ask(task: str, name: str, content: bytes, folder: Path) -> None:
    """Predict with a kept model of which one file is damaged, with a matching digest."""
    from benchharness.extensions.kept_models.load import load_trained
    from benchharness.extensions.kept_models.predict import predict
    from benchharness.tasks.read import read
    from benchharness.tasks.sources import parse_data
    from benchharness.tasks.suites import find_task

    home = folder / "model"
    home.mkdir(exist_ok=True)
    files = _kept(task) | {name: content}
    if name != "manifest.json":
        manifest = json.loads(files["manifest.json"])
        manifest["files"] = {
            each: hashlib.sha256(files[each]).hexdigest() for each in manifest["files"]
        }
        files["manifest.json"] = json.dumps(manifest).encode()
    for each, whole in files.items():
        if not (home / each).exists() or (home / each).read_bytes() != whole:
            (home / each).write_bytes(whole)
    model = load_trained(home)
    found = read(find_task(task), "dev", parse_data("mini"), 3).examples
    if model.task.name == task:
        predict(model, found)


_HOME = TemporaryDirectory()
"""Folder with the checkpoint and the store of the run that trainings are compared with."""


@cache
def _training() -> tuple[dict[str, bytes], Result]:
    """Write the output folder of a Trainer, and store a run of the same checkpoint."""
    from tests.helpers.checkpoints import save_checkpoint
    from tests.helpers.foreign_training import write_folder
    from tests.helpers.plans import plan_job

    home = Path(_HOME.name)
    save_checkpoint(home / "small", **SMALL)
    job = plan_job(str(home / "small"), "glue/mrpc", limit=40, precision="fp32")
    result = make_result(job)
    with open_store(home / "board.sqlite") as store:
        store.add_result(result)
    return _files(write_folder(home / "out", home / "small")), result


def _trainings() -> list[Case]:
    files, _ = _training()
    return [Case(content=files[name], read=partial(_explain, name)) for name in sorted(files)]


def _explain(name: str, content: bytes, folder: Path) -> None:
    """Compare a training with one damaged file, and print the differences."""
    from benchharness.extensions.explanation.beside import explain_run
    from benchharness.extensions.explanation.command import _lines, _row

    files, result = _training()
    home = folder / name.replace(".", "-")
    home.mkdir(exist_ok=True)
    for each, whole in files.items():
        if not (home / each).exists():
            (home / each).write_bytes(whole)
    (home / name).write_bytes(content)
    with open_store(Path(_HOME.name) / "board.sqlite") as store:
        found = explain_run(result, str(home), store)
    for line in (*_lines(found), *map(_row, found.differences)):
        assert len(str(line)) < 10_000_000


FOLDERS = (
    *of_extensions(
        {
            "kept_models": {0: Reader(name="kept model", cases=_models, share=2)},
            "explanation": {1: Reader(name="training to explain", cases=_trainings, share=2)},
        }
    ).values(),
)
