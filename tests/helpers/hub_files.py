"""Test data sets as the hub stores them: Parquet files and a README that describes them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchharness.tasks import sources
from benchharness.tasks.sources import Data, Source


def write_embedded(root: Path, source: Source) -> None:
    """Write a data set's embedded rows as the hub stores them, at the pinned revision."""
    names = source.label_names
    splits = {
        split.hub: [
            {**row, "label": -1 if row["label"] is None else names.index(str(row["label"]))}
            for row in sources.rows(source, name, Data(source="mini"))
        ]
        for name, split in source.splits.items()
    }
    folder = root / "datasets" / source.hub / source.revision
    folder.mkdir(parents=True)
    write_dataset_config(folder, source.config, splits, names)


def write_dataset_config(
    folder: Path,
    config: str,
    splits: Mapping[str, Sequence[Mapping[str, object]]],
    labels: Sequence[str] = (),
) -> None:
    """Add a config to the data set revision in `folder`; `labels` name its ClassLabel column."""
    first = next(iter(splits.values()))[0]
    schema = pa.schema([(name, _type(name, labels)) for name in first])
    for split, rows in splits.items():
        path = folder / config / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
    card = folder / "README.md"
    known = yaml.safe_load(card.read_text().strip("-\n")) if card.exists() else {}
    features = [_feature(field, labels) for field in schema]
    files = [{"split": split, "path": f"{config}/{split}-*"} for split in splits]
    known.setdefault("dataset_info", []).append({"config_name": config, "features": features})
    known.setdefault("configs", []).append({"config_name": config, "data_files": files})
    card.write_text(f"---\n{yaml.safe_dump(known)}---\n")


def _type(name: str, labels: Sequence[str]) -> pa.DataType:
    numbers = {"idx": pa.int32(), "label": pa.int64() if labels else pa.float32()}
    return numbers.get(name, pa.string())


def _feature(field: pa.Field, labels: Sequence[str]) -> dict[str, Any]:
    if field.name == "label" and labels:
        names = {str(number): label for number, label in enumerate(labels)}
        return {"name": "label", "dtype": {"class_label": {"names": names}}}
    dtype = {"int32": "int32", "float": "float32", "string": "string"}[str(field.type)]
    return {"name": field.name, "dtype": dtype}


def write_parquet(
    path: Path,
    rows: Sequence[Mapping[str, object]],
    schema: pa.Schema | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> pa.Schema:
    """Write rows as a Parquet file of the hub with its features; return its schema.

    `labels` are the names of ClassLabels, or of lists of them, by column. Pass the schema of
    another split if these rows do not show their types (empty lists).
    """
    table = pa.Table.from_pylist(list(rows), schema=schema)
    features = {field.name: _stored(field.type) for field in table.schema}
    for label, names in (labels or {}).items():
        if names:
            features[label] = _with_names(features[label], names)
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return table.schema


def write_configs(folder: Path, splits: Mapping[str, Sequence[str]]) -> None:
    """Write the README of a data set: each config's splits, with files CONFIG/SPLIT-*."""
    configs = [
        {
            "config_name": config,
            "data_files": [{"split": name, "path": f"{config}/{name}-*"} for name in names],
        }
        for config, names in splits.items()
    ]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n")


def stored_row(source: Source, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as the hub stores it: nested columns, classes as numbers, -1 for none."""
    stored: dict[str, Any] = {}
    for column in source.columns:
        value = row[column]
        if column == source.label and source.label_names:
            value = _number(source, value)
        if column in source.classes:
            value = [source.classes[column].index(name) for name in value]
        *outer, inner = column.split(".")
        within = stored
        for name in outer:
            within = within.setdefault(name, {})
        if outer or value is not None:
            within[inner] = value
    return stored


def _number(source: Source, label: Any) -> Any:
    if isinstance(label, list):
        return [source.label_names.index(name) for name in label]
    return -1 if label is None else source.label_names.index(label)


def _stored(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: _stored(field.type) for field in kind}
    if pa.types.is_list(kind):
        return {"feature": _stored(kind.value_type), "_type": "List"}
    return {"dtype": str(kind), "_type": "Value"}


def _with_names(feature: Any, names: Sequence[str]) -> Any:
    if feature["_type"] == "List":
        return {**feature, "feature": _with_names(feature["feature"], names)}
    return {"names": list(names), "_type": "ClassLabel"}
