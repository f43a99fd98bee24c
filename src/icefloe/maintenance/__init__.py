"""Maintenance of a table's files: what makes the same rows cheaper to read. Spec: Snapshots (operation replace)."""
