"""The commit of tables: attempts, the swap of metadata locations, and the check of an unknown commit state.

Spec: Optimistic Concurrency.
"""
