"""Statistics that are rows of their own beside a table: one for each partition of a snapshot. It opens no file."""
