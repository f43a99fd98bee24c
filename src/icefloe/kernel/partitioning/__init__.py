"""Partitioning: transforms, partition specs and sort orders. Spec: Partitioning; Sorting."""
