"""Spark's catalog interfaces: `SparkCatalog` with its tables, views, procedures and DDL."""
