"""Partition transforms, as functions in Spark SQL and as columns of DataFrames."""
