"""A fixture data set repository as the hub stores it: parquet files and a README with features."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["write_dataset_repo"]

Rows = Sequence[Mapping[str, object]]


def write_dataset_repo(
    root: Path,
    *,
    repo: str,
    revision: str,
    config: str,
    splits: Mapping[str, Rows],
    labels: Sequence[str] = (),
) -> Path:
    """Write `datasets/REPO/REVISION` under `root`; `labels` make the label column a ClassLabel."""
    folder = root / "datasets" / repo / revision
    columns = {name: _type(name, labels) for name in next(iter(splits.values()))[0]}
    schema = pa.schema(list(columns.items()))
    for split, rows in splits.items():
        path = folder / config / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
    (folder / "README.md").write_text(_readme(config, columns, tuple(splits), labels))
    return folder


def _type(name: str, labels: Sequence[str]) -> pa.DataType:
    if name == "idx":
        return pa.int32()
    if name == "label":
        return pa.int64() if labels else pa.float32()
    return pa.string()


def _readme(
    config: str, columns: Mapping[str, pa.DataType], splits: Sequence[str], labels: Sequence[str]
) -> str:
    lines = ["---", "dataset_info:", f"- config_name: {config}", "  features:"]
    for name, kind in columns.items():
        lines.append(f"  - name: {name}")
        if name == "label" and labels:
            lines += ["    dtype:", "      class_label:", "        names:"]
            lines += [f"          '{number}': {label}" for number, label in enumerate(labels)]
        else:
            lines.append(f"    dtype: {'float32' if kind == pa.float32() else kind}")
    lines += ["configs:", f"- config_name: {config}", "  data_files:"]
    for split in splits:
        lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    return "\n".join([*lines, "---", ""])
