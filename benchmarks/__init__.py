"""Measurements outside the tests, such as speed compared with transformers' Trainer."""
