"""The command line: one file per command, each importing what is heavy only when it runs."""
