"""How results are made: models, recipes, heads, training, jobs, engines and the CLI."""

__version__ = "0.1.0"
