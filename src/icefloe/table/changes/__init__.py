"""The doors of every change, written once for tables, transactions and static tables; and changes of metadata that are collected.

Spec: Table Metadata.
"""
