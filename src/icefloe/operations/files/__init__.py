"""Snapshots of files that exist already: the operations of `table.update_snapshot()`.

Spec: Snapshots.
"""
