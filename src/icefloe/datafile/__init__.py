"""Data files and delete files as Arrow data: reading by field id, writing and rolling at a target size, metrics, rewriting.

Storage is accessed only through the protocol `spec.ports.FileIO`. The packages `scan`, `commit` and `table` decide which files are read and added.
"""
