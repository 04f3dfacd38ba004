"""What benchmarks are: sources, adapters, metrics, suites. No torch in here."""
