"""Data files and delete files as Arrow: read by field id, written and rolled at a target size, described by metrics, rewritten.

Storage is reached only through the port `spec.ports.FileIO`. Which files a scan reads and a commit adds is decided in `scan`, `commit` and `table`.
"""
