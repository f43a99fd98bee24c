"""Expiry of snapshots and purge of tables: which files nothing needs any longer, and their deletion.

Spec: Snapshot Retention Policy.
"""
