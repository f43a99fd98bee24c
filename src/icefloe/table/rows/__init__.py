"""The writes of rows: what each makes of rows or a filter until it is files and one action.

Spec: Row-level Deletes; Writing Data Files.
"""
