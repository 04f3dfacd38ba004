"""Command line: one file per command, and modules that several commands share."""
