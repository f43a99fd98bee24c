"""Writes of rows: they turn rows or a filter into data files, delete files and one action to commit.

Spec: Row-level Deletes; Writing Data Files.
"""
