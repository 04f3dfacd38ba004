"""Models that runs have trained and kept: loading, prediction, export and checks of exports."""
