"""Read the entries of `.eval_results/*.yaml` and of the model-index in README.md.

The Hub's own classes represent the entries. Before these classes see a file, it is converted to a
limited number of plain lists, mappings, texts and numbers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import date
from typing import Any, Literal

import yaml

from benchharness.errors import DataError, first_line
from benchharness.extensions.exports.cards import import_hub
from benchharness.extensions.hub_results.repository import CARD, Repository
from benchharness.leaderboard.text import storable, visible

Form = Literal["eval-results", "model-index"]
"""Format of an entry, which is also the value of `bench export --format` that writes it."""

MOST_VALUES = 300_000
"""Largest number of values in a file, after each alias is replaced by its values. A few aliases of
YAML can stand for billions of values."""

DEEPEST = 30
"""Largest depth of nested lists and mappings in a file."""


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """Entry of a file with results.

    Attributes:
        path: Path of the file in the repository.
        number: Position of the entry in the file, from 1.
        form: Format of the file.
        title: Name of the model in a model-index; empty for eval-results.
        entry: EvalResultEntry (of eval-results) or EvalResult (of a model-index) of
            huggingface_hub. All fields are texts or None, except values and arguments.
    """

    path: str
    number: int
    form: Form
    title: str
    entry: Any


def entries_in(repository: Repository) -> Iterator[FileEntry]:
    """Yield the entries of the files in a repository.

    Raises:
        DataError: A file has another layout.
    """
    for path, text in repository.files.items():
        form: Form = "model-index" if path == CARD else "eval-results"
        read = _card_entries if path == CARD else _results_entries
        try:
            title, found = read(text)
            for entry in found:
                _check_types(entry)
        except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
            raise _other_layout(repository, path, form, first_line(error)) from error
        except RecursionError as error:
            raise _other_layout(repository, path, form, "it is nested too deeply") from error
        for number, entry in enumerate(found, start=1):
            yield FileEntry(path=path, number=number, form=form, title=title, entry=entry)


def _other_layout(repository: Repository, path: str, form: Form, reason: str) -> DataError:
    return DataError(
        f"{path} of {repository.name} does not have the layout of {form}: "
        f"{visible(reason)[:200].removesuffix('.')}. Ask its author for the layout that "
        "https://huggingface.co/docs/hub/eval-results describes."
    )


def _results_entries(text: str) -> tuple[str, list[Any]]:
    """Return the entries of an eval-results file, after an empty title."""
    data = _plain(text)
    if not isinstance(data, list):
        raise TypeError("expected a list of entries")
    return "", list(import_hub().parse_eval_result_entries(data))


def _card_entries(text: str) -> tuple[str, list[Any]]:
    """Return the name of the model and the entries of a model-index; a card may have none."""
    from huggingface_hub import repocard, repocard_data  # noqa: PLC0415  (a third of a second)

    block = repocard.REGEX_YAML_BLOCK.search(text)
    data = _plain(block[2]) if block else {}
    if not isinstance(data, dict | None):
        raise TypeError("expected a mapping as metadata")
    index = (data or {}).get("model-index")
    if not index:
        return "", []
    title, found = repocard_data.model_index_to_eval_results(index)
    return str(title), list(found)


_LIST, _MAPPING = "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"


def _plain(text: str) -> Any:
    """Return YAML as lists, mappings, texts, numbers, booleans and None, with aliases replaced.

    Infinite numbers and dates without quotes become texts.

    Raises:
        TypeError: There is a value of another type, such as a set.
        ValueError: There are too many values, they are nested too deeply, or a key occurs twice.
        yaml.YAMLError: The text is not YAML, or has a value of an unknown type.
    """
    count, scalars = 0, yaml.constructor.SafeConstructor()

    def copy(node: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        if count > MOST_VALUES or depth > DEEPEST:
            raise ValueError("it has too many values, or is nested too deeply")
        if node.tag == _LIST and isinstance(node, yaml.SequenceNode):
            return [copy(each, depth + 1) for each in node.value]
        if node.tag == _MAPPING and isinstance(node, yaml.MappingNode):
            return {key: copy(each, depth + 1) for key, each in _pairs(node)}
        if isinstance(node, yaml.ScalarNode):
            return _plain_value(scalars.construct_object(node))
        raise TypeError(f"it has a value of the type {node.tag}")

    # The nodes of a text take as much memory as the text. An alias is a second reference to a node,
    # and is not replaced before the values are counted.
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return None if root is None else copy(root, 0)


def _pairs(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the keys and the nodes of a mapping; raise an error if a key occurs twice."""
    met = set[str]()
    for key, each in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            raise TypeError("it has a key that is no text")
        if key.value in met:
            raise ValueError(f"the key {key.value!r} occurs twice")
        met.add(key.value)
        yield storable(key.value), each


def _plain_value(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, date):  # a datetime is a date too
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float | None):
        return value
    raise TypeError(f"it has a value of the type {type(value).__name__}")


_ANYTHING = ("value", "metric_value", "metric_args", "dataset_args", "verified")
"""Fields of the Hub's classes whose values need not be texts."""

_NEEDED = ("dataset_id", "task_id", "dataset_type", "metric_type")
"""Fields of the Hub's classes that must be texts, and not None."""


def _check_types(entry: Any) -> None:
    """Raise TypeError if a field of an EvalResultEntry or EvalResult has a wrong type."""
    for each in fields(entry):
        value = getattr(entry, each.name)
        expected = str if each.name in _NEEDED else str | None
        if each.name not in _ANYTHING and not isinstance(value, expected):
            raise TypeError(f"{each.name} is a {type(value).__name__} and no text")
