"""Maintenance of tables: compaction, conversion and removal of deletes, orphan files, copies of tables, and the action that decides which of these pay off."""
