"""Files that do not fit into memory are refused before they are read."""

import gzip
import resource
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from benchharness.errors import DataError
from benchharness.extensions.custom_data import memory, tables
from benchharness.extensions.custom_data.tables import read_table

ROW = "a rather long line of words,pos\n"


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_text_file_too_large_for_memory_is_an_error_that_states_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    content = ("text,label\n" + ROW * 60_000).encode()
    (tmp_path / name).write_bytes(gzip.compress(content, 1) if ".gz" in name else content)
    monkeypatch.setattr(memory, "free_memory", lambda: 20_000_000)
    monkeypatch.setattr(tables, "CHUNK_BYTES", 2**18)
    with pytest.raises(DataError, match=rf"^{name} has 0\.00\d* GB of rows, .* are free: use"):
        read_table([tmp_path / name])


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.feather", "rows.xlsx"])
def test_columnar_file_too_large_for_memory_is_an_error_before_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Equal rows compress to a hundredth, so a small file has many rows."""
    if name == "rows.xlsx":
        book = pytest.importorskip("openpyxl").Workbook(write_only=True)
        sheet = book.create_sheet()
        for row in ("text", "label"), *[(ROW, "pos")] * 15_000:
            sheet.append(row)
        book.save(tmp_path / name)
    else:
        _write_columns(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 2**20
    monkeypatch.setattr(memory, "free_memory", lambda: 8_000_000)
    monkeypatch.setattr(tables, "objects_table", lambda *_: pytest.fail("rows are made"))
    with pytest.raises(DataError, match=rf"^{name} has 0\.00\d* GB of rows, .* are free: use"):
        read_table([tmp_path / name])


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
@pytest.mark.parametrize("is_packed", [True, False])
def test_memory_estimate_counts_dictionary_encoded_texts_per_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_packed: bool
) -> None:
    """A categorical column, or one that Parquet encodes as a dictionary, stores each text once."""
    texts = pa.array(["a" * 50_000, "b" * 50_000] * 100)
    column = texts.dictionary_encode() if is_packed else texts
    rows = pa.table({"text": column, "label": ["x", "y"] * 100})
    if name == "rows.parquet":
        parquet.write_table(rows, tmp_path / name, store_schema=is_packed)
    else:
        with ipc.new_file(tmp_path / name, rows.schema) as file:
            file.write_table(rows)
    monkeypatch.setattr(memory, "free_memory", lambda: 50_000_000)
    monkeypatch.setattr(tables, "objects_table", lambda *_: pytest.fail("rows are made"))
    with pytest.raises(DataError, match=r" has 0\.01 GB of rows, .* are free: use"):
        read_table([tmp_path / name])


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**59], pa.timestamp("us")),
        pa.Array.from_buffers(
            pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
        ),
    ],
    ids=["year", "bytes"],
)
def test_value_that_python_cannot_represent_is_an_error_that_names_the_column(
    tmp_path: Path, name: str, values: pa.Array
) -> None:
    rows = pa.table({"text": ["a text"], "when": values})
    if name == "rows.parquet":
        parquet.write_table(rows, tmp_path / name)
    else:
        with ipc.new_file(tmp_path / name, rows.schema) as file:
            file.write_table(rows)
    with pytest.raises(DataError, match=rf"^{name} has a value in column 'when' that cannot be"):
        read_table([tmp_path / name])


def _write_columns(path: Path, count: int = 60_000) -> None:
    rows = pa.table({"text": [ROW] * count, "label": ["pos"] * count})
    if path.suffix == ".parquet":
        parquet.write_table(rows, path)
        return
    options = ipc.IpcWriteOptions(compression="zstd")
    new = ipc.new_stream if path.suffix == ".arrow" else ipc.new_file
    with new(path, rows.schema, options=options) as file:
        file.write_table(rows, max_chunksize=10_000)


def test_parquet_file_too_large_for_memory_is_refused_before_its_rows_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decompressing the rows could take more memory than there is."""
    _write_columns(tmp_path / "rows.parquet", 600_000)
    monkeypatch.setattr(memory, "free_memory", lambda: 8_000_000)
    monkeypatch.setattr(tables, "_of_arrow", lambda *_: pytest.fail("rows are unpacked"))
    with pytest.raises(DataError, match=r"^rows\.parquet has 0\.0012 GB of rows, .* are free"):
        read_table([tmp_path / "rows.parquet"])


def test_arrow_memory_error_is_reported_as_a_file_too_large_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc")

    for name in ("rows.parquet", "rows.arrow"):
        _write_columns(tmp_path / name)
        monkeypatch.setattr(tables, "_of_arrow", ends)
        with pytest.raises(DataError, match=rf"{name} does not fit into memory"):
            read_table([tmp_path / name])


def test_small_file_is_read_without_a_memory_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + ROW * 100)
    monkeypatch.setattr(memory, "free_memory", lambda: 0)
    assert len(read_table([tmp_path / "rows.csv"]).ids) == 100


def test_memory_error_while_reading_is_a_data_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object, **__: object) -> None:
        raise MemoryError

    (tmp_path / "rows.csv").write_text("text,label\n" + ROW)
    monkeypatch.setattr(tables, "_of_text", ends)
    with pytest.raises(DataError, match=r"rows\.csv does not fit into memory"):
        read_table([tmp_path / "rows.csv"])


def test_free_memory_is_the_minimum_of_machine_container_and_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "CONTAINER", tmp_path)
    machine = memory.free_memory()
    assert 2**20 < machine < 2**50
    (tmp_path / "memory.max").write_text("max")
    (tmp_path / "memory.current").write_text("1000")
    assert memory.free_memory() > 2**20
    (tmp_path / "memory.max").write_text("2000500")
    assert memory.free_memory() == 1_999_500
    (tmp_path / "memory.stat").write_text("anon 9\ninactive_file 400\nactive_file 100\n")
    assert memory.free_memory() == 2_000_000, "what is held of files is given back"
    limit = 2**30 + 4096 * int(Path("/proc/self/statm").read_text().split()[0])
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    (tmp_path / "memory.max").write_text("max")
    assert memory.free_memory() <= 2**30


def test_memory_estimate_is_within_a_factor_of_three_of_the_peak_memory(tmp_path: Path) -> None:
    """Short cells take the most memory, because each is an object."""
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c\n" + "".join(f"x{n},{n},y\n" for n in range(30_000)))
    content = path.read_bytes()
    (tmp_path / "first.csv").write_text("a,b\nx,1\ny,2\n")
    # Imports libraries and fills caches before the measurement.
    read_table([tmp_path / "first.csv"])
    tracemalloc.start()
    read_table([path])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    cells = memory.cells_per_byte(content) * len(content)
    foreseen = memory.BYTES_PER_BYTE * len(content) + memory.BYTES_PER_CELL * cells
    assert peak / 2 < foreseen
    assert foreseen < 3 * peak
