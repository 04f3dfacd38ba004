"""Exact restart: the states that a running job keeps, and takes up again after it was stopped."""
