"""Spark's catalog interface: `SparkCatalog` with its tables, views, procedures and DDL, and the SQL text that catalogs and statements share."""
