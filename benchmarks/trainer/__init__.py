"""The peer: transformers' Trainer in scripts of our own, which share nothing with benchharness."""
