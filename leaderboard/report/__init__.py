"""The HTML report: one self-contained file that opens from disk with no network."""
