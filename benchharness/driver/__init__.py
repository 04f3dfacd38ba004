"""From a request to stored results: plan, schedule, drive. The only orchestration; no torch."""
