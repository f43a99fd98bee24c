"""Delete files and deletion vectors: read, applied to the rows of a data file, found, written.

Spec: Row-level Deletes.
"""
