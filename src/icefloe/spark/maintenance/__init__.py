"""Spark jobs for the maintenance of tables."""
