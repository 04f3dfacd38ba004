"""Engines, which run jobs in worker processes and return the results. They do not import torch."""
