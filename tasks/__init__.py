"""Benchmarks: data sources, tasks, metrics and suites. The package does not import torch.

This file imports nothing, so that importing any single module of the package stays fast.
"""
