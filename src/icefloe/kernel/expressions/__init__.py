"""Row filters: as values and from text, bound to a schema, evaluated on rows and on bounds, projected through partition specs."""
