"""Ways of transfer besides full fine-tuning: frozen features and low-rank adapters."""
