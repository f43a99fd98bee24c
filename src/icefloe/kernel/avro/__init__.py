"""Avro as columns: schemas with field ids, a compiled reader and one over fastavro, encoders, container files. It knows no Iceberg type. Layer: kernel.avro."""
