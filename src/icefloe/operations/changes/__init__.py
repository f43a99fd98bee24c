"""Changes of a table's metadata that are collected and committed together: schema, partition spec, sort order, snapshots, statistics; and UPDATE and MERGE.

Spec: Table Metadata.
"""
