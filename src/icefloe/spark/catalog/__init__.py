"""Spark's catalog interface: tables, views, functions, procedures, DDL."""
