"""Engines: what starts jobs and brings back their results. No torch in here."""
