"""Commits as values, without I/O: actions and their attempts, the files and updates of an attempt, conflict rules, outcomes and snapshot summaries.

The loop that repeats a lost attempt does I/O, so it is in `icefloe.operations.commit_loop`.
"""
