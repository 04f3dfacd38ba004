"""The one way to read back what is stored: predictions and examples, and what stands on them."""
