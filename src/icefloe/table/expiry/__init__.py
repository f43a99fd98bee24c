"""Old snapshots expire, tables are purged: which files nothing needs any longer, and their deletion.

Floor: table. Spec: Snapshot Retention Policy.
"""
