"""Parts of a long page that a script unpacks when they are asked for: gzipped, in base64."""

import base64
import gzip
import json
from collections.abc import Sequence

from jinja2 import Environment
from markupsafe import Markup

from leaderboard.report.rows import RowView
from leaderboard.visible import visible

__all__ = ["packed", "packed_rows"]


def packed(text: str) -> Markup:
    """The text for a data element; the same text is always packed alike."""
    data = gzip.compress(text.encode("utf-8"), compresslevel=6, mtime=0)
    return Markup(base64.b64encode(data).decode("ascii"))  # noqa: S704 - letters and digits alone


def packed_rows(rows: Sequence[RowView], templates: Environment) -> Markup:
    """Rows of a table: for each its id, what a filter and an order need, and its HTML."""
    board_row = templates.get_template("row.html.j2").module.board_row  # type: ignore[attr-defined]
    listed = [
        {
            "id": row.anchor,
            "words": visible(row.words),
            "orders": [visible(order) for order in row.orders],
            "html": board_row(row),
        }
        for row in rows
    ]
    return packed(json.dumps(listed, ensure_ascii=False, separators=(",", ":")))
