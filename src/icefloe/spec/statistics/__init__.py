"""Partition statistics: one row for each partition of a snapshot. No file is opened here."""
