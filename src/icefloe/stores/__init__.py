"""Catalog stores: names of namespaces, tables and views, and the one metadata location of each table and view. Spec: Metastore Tables."""
