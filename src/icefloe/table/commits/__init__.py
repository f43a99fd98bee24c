"""The one loop around a commit: attempts, the swap of the pointer, and what is known of it afterwards.

Floor: table. Spec: Optimistic Concurrency.
"""
