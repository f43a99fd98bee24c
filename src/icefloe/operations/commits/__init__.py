"""The commit of tables: attempts, the commit to the catalog store, and the check of an unknown commit state.

Spec: Optimistic Concurrency.
"""
