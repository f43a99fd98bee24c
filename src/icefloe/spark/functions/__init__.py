"""Partition transforms as functions of Spark SQL and as columns."""
