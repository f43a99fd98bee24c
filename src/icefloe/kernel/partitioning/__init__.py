"""Partitioning: transforms, partition specs and sort orders. Floor: kernel.partitioning. Spec: Partitioning; Sorting."""
