"""Metadata tables: the contents of a table's metadata and manifests as Arrow tables, with the names and columns of Java's metadata tables.

`metadata_table_registry.py` is the entry point: it returns a metadata table by its name. Reports about a table for people are in `icefloe.inspect`.
"""
