"""Manifests: their entries as objects and as Arrow columns, read from Avro, written, merged and filtered."""
