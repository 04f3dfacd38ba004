"""Scripts that fine-tune with transformers' Trainer and share no code with benchharness."""
