"""The only thing an engine starts: a process that turns one job into a Result or a Failure."""
