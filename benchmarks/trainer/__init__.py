"""The other tool: transformers' Trainer in scripts that share no code with benchharness."""
