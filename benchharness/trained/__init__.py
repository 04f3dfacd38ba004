"""Models that runs have trained and kept: loaded from their folders, and asked."""
