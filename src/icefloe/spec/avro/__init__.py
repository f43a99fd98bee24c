"""Avro files as columns: schemas with field ids, a compiled reader, a reader with fastavro, encoders, container files. It does not depend on Iceberg types."""
