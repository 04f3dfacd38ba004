"""Results: jobs, the store, boards and the report. Imports no torch."""
