"""Scans: the scan builder, push-down of filters and aggregates, read strategies, and statistics for Spark's optimizer."""
