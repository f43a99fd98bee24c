"""Avro as columns: schemas with field ids, a decoder generated per writer schema, encoders, container files. It knows no Iceberg type. Floor: kernel.avro."""
