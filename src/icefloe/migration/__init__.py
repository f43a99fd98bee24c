"""Folders of files, and tables of other formats, as Iceberg tables: in place, or as a new table over files that stay their owner's. No file is copied."""
