"""The catalog pointer: names of namespaces and tables, and the one metadata location behind each. Spec: Metastore Tables."""
