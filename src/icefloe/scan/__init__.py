"""Scan planning: from a snapshot and a filter to the data files to read, and why each was kept or skipped."""
