"""Ways of transfer beside full fine-tuning: frozen features and low-rank adapters."""
