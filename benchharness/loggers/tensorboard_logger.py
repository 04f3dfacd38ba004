"""Event files for TensorBoard, written by its own package without TensorFlow or torch."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from benchharness.loggers.logger import LoggedRun, Value

HEADINGS = "| name | value |\n|---|---|\n"


class TensorBoardLogger:
    """A folder of event files for each run; look with `tensorboard --logdir` at the one above."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tensorboard"
        self._writers: dict[str, Any] = {}

    @property
    def place(self) -> str:
        """The folder for --logdir."""
        return str(self._folder)

    def begin(self, run: LoggedRun) -> None:
        """Opens the run's file; its settings are the text "config"."""
        self._writers[run.key] = EventFileWriter(str(self._folder / run.folder_name))
        self._write_text(run.key, "config", run.config)

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        """A scalar of each number."""
        for name, value in values.items():
            self._write(key, scalar_pb(name, value), step)

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:  # noqa: ARG002
        """Numbers as scalars, texts as the text "facts"."""
        numbers = {
            name: float(v)
            for name, v in facts.items()
            if (isinstance(v, int | float) and not isinstance(v, bool))
        }
        self.log(key, 0, numbers)
        texts = {name: value for name, value in facts.items() if name not in numbers}
        self._write_text(key, "facts", texts)
        self._writers.pop(key).close()

    def close(self) -> None:
        """Writes what is left of interrupted runs."""
        for writer in self._writers.values():
            writer.close()

    def _write_text(self, key: str, tag: str, values: Mapping[str, Value]) -> None:
        rows = "".join(f"| {_cell(name)} | {_cell(value)} |\n" for name, value in values.items())
        self._write(key, text_pb(tag, HEADINGS + rows), 0)

    def _write(self, key: str, summary: Any, step: int) -> None:
        self._writers[key].add_event(Event(wall_time=time.time(), step=step, summary=summary))


def _cell(value: Value) -> str:
    """A value in a cell of a Markdown table."""
    return str(value).replace("|", "\\|").replace("\n", " ")
