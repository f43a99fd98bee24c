"""The catalog pointer: names of namespaces and tables, and the one metadata location behind each. Floor: pointer. Spec: Metastore Tables."""
