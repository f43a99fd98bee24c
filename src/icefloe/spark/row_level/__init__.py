"""Row-level operations: DELETE, UPDATE, MERGE and upserts, with their planner, sources, target pruning, and jobs."""
