"""Benchmarks: data sources, task adapters, metrics and suites. Imports no torch.

This file imports nothing itself, because every command imports `.errors` and thereby this package.
"""
