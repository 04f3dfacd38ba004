"""The command line, with a module per command and modules that several commands share."""
