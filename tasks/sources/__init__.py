"""The three doors that rows come in by: the hub, official files, the embedded mini data."""
