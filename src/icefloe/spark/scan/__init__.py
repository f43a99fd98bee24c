"""Scans: the scan builder, push-down, read strategies, statistics for the optimizer."""
