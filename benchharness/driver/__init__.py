"""Planning, scheduling and driving of jobs, from a request to stored results; imports no torch."""
