"""What is measured outside of the tests: speed beside transformers' Trainer, the gate's power."""
