"""Read rows from XML: the repeated elements of a common parent."""

from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

from benchharness.errors import DataError
from benchharness.extensions.custom_data.columns import Table
from benchharness.extensions.custom_data.documents import objects_table
from benchharness.tasks.sources.source import Place

MOST_LEVELS = 20
"""Maximum depth of nested elements in a row."""


def read_xml(path: Place, text: str) -> Table:
    """Read a row from each of the elements that have the same name and the same parent.

    The parent is the root, and the rows are its children with the most frequent name. If the root
    has only one child, this child counts as the root, and so on.

    Raises DataError if the text is not XML, has no repeated elements or too deeply nested ones, or
    declares entities, which may expand to any amount of text.
    """
    if "<!ENTITY" in text:
        raise DataError(
            f"{path.name} declares XML entities, which are not supported: "
            "replace them by their text."
        )
    try:
        root = ET.fromstring(text.lstrip("\ufeff \r\n\t"))  # noqa: S314  (no entities)
    except ET.ParseError as error:
        line, column = error.position
        raise DataError(
            f"{path.name} line {line} column {column + 1} is not XML: {error}."
        ) from error
    while len(root) == 1:
        root = root[0]
    counts = Counter(child.tag for child in root)
    tag, count = counts.most_common(1)[0] if counts else ("", 0)
    if count < 2:
        raise DataError(
            f"{path.name} is XML without rows: expected two or more neighbouring elements with the "
            "same name."
        )
    rows = [child for child in root if child.tag == tag]
    # Elements whose name occurs twice or more in some parent become a list in all rows.
    several = {
        (inner.tag, name)
        for row in rows
        for inner in row.iter()
        for name, count in Counter(each.tag for each in inner).items()
        if count > 1
    }
    found = [(str(n), _value(path, row, several)) for n, row in enumerate(rows, start=1)]
    return objects_table(
        path, [(n, v if isinstance(v, dict) else {tag: v}) for n, v in found], "row"
    )


def _value(path: Place, element: Any, several: set[tuple[str, str]], level: int = 0) -> Any:
    """Convert an element to its text, or to a dict if it has attributes or child elements."""
    if level > MOST_LEVELS:
        raise DataError(
            f"{path.name} has elements that are nested more than {MOST_LEVELS} levels deep."
        )
    said = (element.text or "").strip() or None
    lists: dict[str, Any] = {}
    found: dict[str, Any] = dict(element.attrib)
    for child in element:
        value = _value(path, child, several, level + 1)
        if (element.tag, child.tag) in several:
            lists.setdefault(child.tag, []).append(value)
        else:
            found[child.tag] = value
    found |= lists | ({"text": said} if said else {})
    return found if len(found) > bool(said) else said
