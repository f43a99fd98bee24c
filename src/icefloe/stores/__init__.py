"""Catalog stores: backends that store the names of namespaces, tables and views, and the metadata location of each table and view. Spec: Metastore Tables."""
