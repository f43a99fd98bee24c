"""Partitioning: transforms, partition specs and their evolution, and sort orders. Spec: Partitioning; Sorting."""
