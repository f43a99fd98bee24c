"""What a commit writes and requires, as data: actions, attempts, outcomes, summaries. Floor: the highest of the kernel."""
