"""The regression gate: is a task worse than its baseline, beyond what another seed does? Pure."""
