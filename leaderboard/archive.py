"""What an archive of a whole store is: the names that its writer and its reader share."""

__all__ = ["FORMAT", "VERSION"]

FORMAT = "benchharness archive"

VERSION = 1
"""Goes up when a reader of the version before would misread what is written."""
