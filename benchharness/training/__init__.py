"""Optimizer steps, evaluation and the states of running jobs; knows neither task nor head."""
