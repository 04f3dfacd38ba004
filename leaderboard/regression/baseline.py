"""The baseline: what a model's runs came to, in a file that stands beside the code."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import UnionType
from typing import Any

from benchharness.leaderboard.regression.sample import Sample
from benchharness.tasks.errors import DataError

FORMAT = 2
"""Goes up when the file's fields change; 1 was written before 0.1.0."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A model's samples by task, and what they were made with.

    `data` is the source ("mini", "hub" or "files", whose folder the file does not tell), `limit`
    the rows kept of each split. `environment` says which code, versions and machine made the runs;
    it is for a reader, and nothing is decided by it (a sample's `maker` says what decides).
    """

    model: str
    data: str
    limit: int | None
    recipe: str
    environment: Mapping[str, Any]
    tasks: Mapping[str, Sample]

    def to_text(self) -> str:
        """The file's text: JSON with a line for each value, so that changes can be read."""
        spreads = {task: sample.spread for task, sample in self.tasks.items()}
        means = {task: sample.mean for task, sample in self.tasks.items()}
        summary = {task: {"mean": means[task], "spread": spreads[task]} for task in self.tasks}
        data = {"format": FORMAT, "summary": summary, **asdict(self)}
        return json.dumps(data, indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_text(cls, text: str, name: str) -> "Baseline":
        """The baseline of a file's text; `name` is what an error calls the file.

        Raises DataError where the text is no baseline, or one of another format.
        """
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise DataError(
                    f"{name} is a baseline of format {data['format']}, and this version reads "
                    f"format {FORMAT}: write it again with `bench baseline`."
                )
            tasks = {task: Sample.from_json(sample) for task, sample in data["tasks"].items()}
            fields = {field: _field(data, field) for field in _PLAIN}
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise DataError(
                f"{name} is not a baseline ({type(error).__name__}: {error}): expected a file that "
                "`bench baseline` wrote; write it again."
            ) from error
        return cls(**fields, tasks=tasks)


_PLAIN: Mapping[str, UnionType | type] = {
    "model": str,
    "data": str,
    "limit": int | None,
    "recipe": str,
    "environment": dict,
}


def _field(data: Mapping[str, Any], name: str) -> Any:
    if not isinstance(data[name], _PLAIN[name]):
        raise TypeError(f"{name} is {data[name]!r}")
    return data[name]
