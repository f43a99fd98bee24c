"""Row filters: parsed from text, bound to a schema, evaluated on rows and on metrics, and projected through partition specs."""
