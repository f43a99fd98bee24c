"""The one loop around a commit: attempts, the swap of the pointer, and what is known of it afterwards.

Spec: Optimistic Concurrency.
"""
