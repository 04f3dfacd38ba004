"""The three doors that rows come in by: the hub, official files, the embedded mini data."""

from tasks.sources.data import Data, parse_data
from tasks.sources.rows import has_rows, rows
from tasks.sources.source import Column, Format, Row, Source, Split

__all__ = ["Column", "Data", "Format", "Row", "Source", "Split", "has_rows", "parse_data", "rows"]
