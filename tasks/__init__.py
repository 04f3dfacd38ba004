"""What benchmarks are: sources, adapters, metrics, suites. No torch in here.

Nothing is imported: every command imports `.errors`, and with it this file.
"""
