"""Old snapshots expire, tables are purged: which files nothing needs any longer, and their deletion.

Spec: Snapshot Retention Policy.
"""
