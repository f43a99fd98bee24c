"""The change feed of a table: the rows that snapshots inserted, deleted and updated. All other readers of changes use it."""
