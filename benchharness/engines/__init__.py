"""Engines, which run jobs in worker processes and return their results, without importing torch."""
