"""Commits as values, without I/O: actions and their attempts, the files and updates of an attempt, conflict rules, outcomes and snapshot summaries."""
