"""Engines: they run jobs in worker processes and return the results, without importing torch."""
