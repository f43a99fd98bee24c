"""The writes of rows: from rows or a filter to data files and one action for the commit.

Spec: Row-level Deletes; Writing Data Files.
"""
