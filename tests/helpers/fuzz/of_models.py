"""Readers of the inputs of a run: checkpoints, recipes, settings, plugins."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from benchharness.cli.output import model_facts, task_facts
from benchharness.errors import BenchError
from benchharness.models import MODELS, Trust, find_model
from benchharness.models.folder import describe_folder
from benchharness.models.pickles import write_safetensors
from benchharness.models.weights import weights_identity
from benchharness.plugins import VARIABLE, load_plugins
from benchharness.recipes.resolve import packaged_recipe, resolve_sweep, with_start
from benchharness.tasks import suites
from benchharness.tasks.suites import TASKS, find_task
from tests.helpers import ROOT
from tests.helpers.fuzz.reader import Case, Reader

OLDER = {
    "special_tokens_map.json": b'{"unk_token": "[UNK]", "pad_token": {"content": "[PAD]"}}',
    "added_tokens.json": b'{"[E1]": 1496}',
}
"""Files that transformers 4 wrote next to a tokenizer."""

FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", *OLDER)
"""Files of a checkpoint; one of them is damaged at a time."""

OWN_RECIPE = b"""
[default]
epochs = 5
learning_rate = [2e-5, 3e-5]
dropout = { value = 0.1, source = "ours" }
[head.span]
stride = 64
[glue.rte]
start_from = { value = "glue/mnli", source = "ours" }
batch_size = "16,32"
"""

SPEC = {"name": "mine", "checkpoint": "/models/mine", "family": "bert", "aliases": ["my-model"]}

TASK = {
    "name": "mine/irony",
    "folder": "Irony",
    "texts": {"sentence": "sentence"},
    "labels": ["plain", "ironic"],
    "label_texts": ["0", "1"],
}


def _checkpoint() -> dict[str, bytes]:
    from tests.helpers.checkpoints import save_checkpoint

    with TemporaryDirectory() as folder:
        save_checkpoint(Path(folder), vocab_size=2000, hidden_size=8, num_attention_heads=1)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _folders() -> list[Case]:
    files = _checkpoint()
    cases = [
        Case(content=files[name], read=partial(_describe, files, name))
        for name in ("config.json", "model.safetensors")
    ]
    rest = {name: content for name, content in files.items() if name != "model.safetensors"}
    for is_zip in (True, False):
        read = partial(_describe_pickled, rest, is_zip)
        cases.append(Case(content=_pickled(is_zip), read=read))
    return cases


def _pickled(is_zip: bool) -> bytes:
    """Return small weights in the format of torch.save, or of torch before 1.6."""
    import torch

    whole = torch.arange(12.0).reshape(3, 4)
    weights = OrderedDict(a=whole, tied=whole, part=whole[1:, ::2], b=torch.ones(2).half())
    weights["c"] = torch.nn.Parameter(torch.zeros(2))
    file = BytesIO()
    torch.save(weights, file, _use_new_zipfile_serialization=is_zip)
    return file.getvalue()


def _describe_pickled(files: dict[str, bytes], is_zip: bool, content: bytes, folder: Path) -> None:
    """Read pickled weights and convert them, without torch."""
    home = _with(files, "pytorch_model.bin", content, folder / str(is_zip))
    for trust in (Trust(), Trust(pickle=True)):
        try:
            weights_identity(describe_folder(home, trust))
            write_safetensors(home / "pytorch_model.bin", folder / "made.safetensors")
        except BenchError:
            if trust.pickle:
                raise


def _with(files: dict[str, bytes], name: str, content: bytes, folder: Path) -> Path:
    """Write the checkpoint with one other file to a folder that keeps the rest."""
    home = folder / name.replace(".", "-")
    if not home.exists():
        home.mkdir(parents=True)
        for each, whole in files.items():
            (home / each).write_bytes(whole)
    (home / name).write_bytes(content)
    return home


def _describe(files: dict[str, bytes], name: str, content: bytes, folder: Path) -> None:
    """Read a folder as the planner does, without torch."""
    weights_identity(describe_folder(_with(files, name, content, folder)))


def _encoders() -> list[Case]:
    files = _checkpoint() | OLDER
    return [Case(content=files[name], read=partial(_load, files, name)) for name in FILES]


def _load(files: dict[str, bytes], name: str, content: bytes, folder: Path) -> None:
    from benchharness.encoder import load_encoder

    load_encoder(str(_with(files, name, content, folder)), None, seed=1)


def _recipes() -> list[Case]:
    packaged = (ROOT / "benchharness" / "recipes").glob("*.toml")
    contents = [path.read_bytes() for path in sorted(packaged)]
    alone = [content for content in contents if b"[like]" not in content and len(content) < 4000]
    return [Case(content=content, read=_resolve) for content in (OWN_RECIPE, *alone[:4])]


def _resolve(content: bytes, folder: Path) -> None:
    path, spec = folder / "own.toml", find_model("bert")
    path.write_bytes(content)
    for task in ("glue/rte", "squad/v2.0"):
        for resolved in resolve_sweep(spec, task, str(path), {}):
            with_start(resolved, spec, TASKS[task], recipe=str(path))


def _settings() -> list[Case]:
    typed = b"learning_rate=2e-5,3e-5\nepochs=3\nfeatures=last\nbatch_size=16"
    return [Case(content=typed, read=_override)]


def _override(content: bytes, _: Path) -> None:
    """Parse --set values, one per line."""
    pairs = [line.partition("=") for line in content.decode(errors="replace").split("\n")]
    resolve_sweep(find_model("bert"), "glue/rte", None, {n: value for n, _, value in pairs})


def _plugins() -> list[Case]:
    text = (
        "from benchharness.models import ModelSpec\n"
        f"MODELS = [ModelSpec(**{SPEC!r})]\n"
        'METRICS = {"glue/rte": []}\n'
    )
    return [
        Case(content=text.encode(), read=_load_plugin),
        Case(content=json.dumps(SPEC).encode(), read=partial(_load_made, MODEL_PLUGIN)),
        Case(content=json.dumps(TASK).encode(), read=partial(_load_made, TASK_PLUGIN)),
        Case(content=b'{"glue/rte": []}', read=partial(_load_made, "METRICS = {fields}\n")),
    ]


NUMBERS = "nan, inf = float('nan'), float('inf')\n"
MODEL_PLUGIN = "from benchharness.models import ModelSpec\nMODELS = [ModelSpec(**{fields})]\n"
TASK_PLUGIN = (
    "from benchharness.tasks.glue import pair_task\n"
    "from benchharness.tasks.metrics import accuracy\n"
    "TASKS = [pair_task(**{fields}, metrics=(accuracy,))]\n"
)


def _load_made(text: str, content: bytes, folder: Path) -> None:
    """Load a plugin whose Python code has the values of the JSON, if it is JSON."""
    try:
        fields: Any = json.loads(content)
    except (ValueError, RecursionError):
        return
    said = NUMBERS + text.replace("{fields}", repr(fields))
    _load_plugin(said.encode("utf-8", "replace"), folder)


def _load_plugin(content: bytes, folder: Path) -> None:
    path = folder / "mine.py"
    path.write_bytes(content)
    with tables_as_they_were():
        load_plugins([path])
        for spec in MODELS.values():
            if spec.name not in _OURS:
                packaged_recipe(find_model(spec.name))
                json.dumps(model_facts(spec))
        for name in TASKS:
            if name not in _OURS:
                json.dumps(task_facts(find_task(name)))


_OURS = frozenset((*MODELS, *TASKS))


@contextmanager
def tables_as_they_were() -> Iterator[None]:
    tables = (MODELS, suites._tasks, suites._suites)
    kept = [dict(table) for table in tables]
    with (
        patch("benchharness.plugins._loaded", {}),
        patch("benchharness.plugins.entry_points", lambda group: ()),
        patch.dict("os.environ", {VARIABLE: ""}),
    ):
        try:
            yield
        finally:
            for table, before in zip(tables, kept, strict=True):
                table.clear()
                table.update(before)


MODELS_AND_RECIPES = (
    Reader(name="folder", cases=_folders, share=1.5),
    Reader(name="encoder", cases=_encoders, share=0.1),
    Reader(name="recipe", cases=_recipes, share=2),
    Reader(name="settings", cases=_settings),
    Reader(name="plugin", cases=_plugins),
)
