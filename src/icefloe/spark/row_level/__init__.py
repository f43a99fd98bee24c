"""DELETE, UPDATE, MERGE and upserts: planner, sources, target pruning, jobs, operation."""
