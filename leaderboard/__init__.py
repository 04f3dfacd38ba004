"""What results are: jobs, the store, boards and the report. No torch in here."""
