"""Engines, which start jobs and return their results. They do not import torch."""
