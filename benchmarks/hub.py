"""Check that the hub still has the models and datasets of the tables (`make hub`, weekly in CI).

    python -m benchmarks.hub                     every known model and every dataset
    python -m benchmarks.hub --only squad        only models and datasets with the word in the name
    python -m benchmarks.hub --report FILE       also write differences as Markdown, if any

For a model, its revision, the files that a run would read and the family in its config are compared
with the table and hub.toml. For a dataset, its revision, configs, splits, columns and label names
are checked. Only configs and first rows are downloaded. The exit code is 0 without a difference, 1
with a difference, and 4 if the hub did not answer.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchharness.models import MODELS, ModelSpec
from benchharness.models.spec import TOKENIZER_FILES, find_weights
from benchharness.tasks.sources import Source
from benchharness.tasks.sources.hub import go_offline_if_unreachable, hub_errors
from benchharness.tasks.suites import TASKS

CATALOGUE: Mapping[str, Mapping[str, Mapping[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("hub.toml").read_text(encoding="utf-8")
)

TIMEOUT = 30.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """A split of a dataset's config, with the columns and the label names that are read."""

    hub: str
    config: str
    folder: str
    revision: str
    split: str
    columns: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        """Name of the part in the output."""
        return f"{self.hub} ({self.folder or self.config}, {self.split})"


def main(words: Sequence[str] | None = None) -> int:
    options = _parse(words)
    if go_offline_if_unreachable():
        print("the hub did not answer")
        return 4
    found: dict[str, list[str]] = {}
    for name, ask in _questions(options.only):
        differences = list(ask())
        print(f"{name}: {'; '.join(differences) or 'as in the tables'}", flush=True)
        if differences:
            found[name] = differences
    if options.report and found:
        options.report.write_text(_report(found), encoding="utf-8")
    return 1 if found else 0


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--report", type=Path, metavar="FILE")
    return parser.parse_args(words)


def _report(found: Mapping[str, Sequence[str]]) -> str:
    lines = [f"* `{name}`: {each}" for name, several in found.items() for each in several]
    return "The hub differs from the tables or from `benchmarks/hub.toml`:\n\n" + (
        "\n".join(lines) + "\n"
    )


def _questions(only: str) -> Iterator[tuple[str, Any]]:
    for spec in MODELS.values():
        if spec.is_hub and only in f"{spec.name} {spec.checkpoint}":
            yield spec.checkpoint, lambda spec=spec: _ask_model(spec)
    for part in dict.fromkeys(_parts()):
        if only in part.name:
            yield part.name, lambda part=part: _ask_part(part)


# Models.


def _ask_model(spec: ModelSpec) -> Iterator[str]:
    import huggingface_hub

    shape = CATALOGUE["models"].get(spec.checkpoint)
    if shape is None:
        yield "hub.toml does not have it"
        return
    try:
        info = huggingface_hub.HfApi().model_info(
            spec.checkpoint, revision=spec.revision, timeout=TIMEOUT
        )
    except (huggingface_hub.errors.HfHubHTTPError, OSError) as error:
        yield f"revision {spec.revision}: {_first_line(error)}"
        return
    names = [each.rfilename for each in info.siblings or ()]
    yield from _compare_files(shape, names, own_code="--trust-remote-code" in spec.note)
    if "config.json" in names:
        path = huggingface_hub.hf_hub_download(
            spec.checkpoint, "config.json", revision=spec.revision
        )
        config = json.loads(Path(path).read_text(encoding="utf-8"))
        family = config.get("model_type")
        if family != (spec.family if shape.get("says_family", True) else None):
            yield f"its family is {family} in its config and {spec.family} in the table"
        code, known = str(config.get("auto_map", "")), shape.get("code_from", "")
        if "--trust-remote-code" in spec.note and known + "--" * bool(known) not in code:
            yield (
                f"its config loads {code or 'no code'}; hub.toml expects code of "
                f"{known or 'its own repository'}"
            )


def _compare_files(
    shape: Mapping[str, Any], names: Sequence[str], *, own_code: bool
) -> Iterator[str]:
    """Yield a message for each difference between a model's files and the catalogue, hub.toml."""
    has = {
        "weights": find_weights(names),
        "tokenizer": sorted(name for name in TOKENIZER_FILES if name in names),
    }
    if own_code:
        has["code"] = sorted(name for name in names if name.endswith(".py") and "/" not in name)
    for kind, found in has.items():
        known = sorted(shape.get(kind, ()))
        if found != known:
            how = "assumed" if kind in shape.get("assumed", ()) else "seen"
            yield f"its {kind}: {_listed(found)}; in hub.toml: {_listed(known)} ({how})"
    if ("config.json" in names) != shape.get("config", True):
        yield "it has a config.json" if "config.json" in names else "it has no config.json"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


# Datasets.


def _parts() -> Iterator[Part]:
    for task in TASKS.values():
        source = task.source
        if not source.hub:
            continue
        yield from _ranking_parts(source) if source.format == "beir" else _table_parts(source)


def _table_parts(source: Source) -> Iterator[Part]:
    labels = {source.label: source.label_names, **source.classes}
    for split in source.splits.values():
        for config in source.configs or (split.config or source.config,):
            yield Part(
                hub=source.hub,
                config=config,
                folder=source.hub_folder,
                revision=source.revision,
                split=split.hub,
                columns=tuple(name for name in source.columns if name not in source.optional),
                labels=_Labels({name: names for name, names in labels.items() if names}),
            )


def _ranking_parts(source: Source) -> Iterator[Part]:
    """Yield the parts of a BEIR dataset: two configs with texts, and a dataset with judgements."""
    places = [(source.hub, name, name, ("_id", "text")) for name in ("corpus", "queries")]
    pairs = ("query-id", "corpus-id", "score")
    places += [
        (f"{source.hub}-qrels", "default", split.hub, pairs) for split in source.splits.values()
    ]
    for hub, config, split, columns in places:
        yield Part(
            hub=hub,
            config=config,
            folder="",
            revision=source.revision,
            split=split,
            columns=columns,
            labels=_Labels(),
        )


class _Labels(dict[str, tuple[str, ...]]):
    """Label names, keyed by column; hashable, so that equal parts are checked only once."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items())))


def _ask_part(part: Part) -> Iterator[str]:
    import datasets

    shape = CATALOGUE["data"].get(part.hub.removesuffix("-qrels"))
    branch = "convert" if part.revision.startswith("refs/convert") else "main"
    if shape is None or shape["branch"] != branch:
        yield f"hub.toml does not have it on the branch {branch}"
    try:
        found = datasets.load_dataset(
            f"hf://datasets/{part.hub}",
            part.config or None,
            data_dir=part.folder or None,
            revision=part.revision,
            split=part.split,
            streaming=True,
        )
        next(iter(found), None)
        features = found.features or found._resolve_features().features
    except hub_errors() as error:
        yield f"revision {part.revision}: {_first_line(error)}"
        return
    columns = datasets.Features(features).flatten()
    if lost := [name for name in part.columns if name not in columns]:
        yield f"it lacks the columns {', '.join(lost)}; it has {', '.join(columns)}"
    for column, names in part.labels.items():
        feature = features.get(column)
        has = tuple(getattr(getattr(feature, "feature", feature), "names", None) or ())
        if has != names:
            yield f"the labels of {column} are {_listed(has)}; in the task: {_listed(names)}"


def _first_line(error: Exception) -> str:
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line}"


if __name__ == "__main__":
    sys.exit(main())
