"""Expiry of snapshots and purge of tables: finds the files that are no longer needed, and deletes them.

Spec: Snapshot Retention Policy.
"""
