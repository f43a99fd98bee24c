"""Scan planning: finds the data files of a snapshot that may have rows that match a filter, and explains why each file was kept or skipped."""
