"""Delete files and deletion vectors: reading, applying them to the rows of a data file, finding positions to delete, writing.

Spec: Row-level Deletes.
"""
