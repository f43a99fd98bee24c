"""Snapshots of files that exist already: the operations of `table.update_snapshot()`.

Floor: table. Spec: Snapshots.
"""
