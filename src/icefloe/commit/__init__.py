"""What a commit writes and requires, as data: actions, attempts, outcomes, summaries."""
