"""Migration: existing Parquet and ORC files as an Iceberg table, in place (`migrate_table.py`) or as a table that only refers to them (`snapshot_table.py`).

The files are those of a folder, or of a table in another format. No file is copied.
"""
