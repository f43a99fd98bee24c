"""Runs every test of manifest lists with the compiled reader and with the reader over fastavro."""

from tests.spec.avro.both_readers import manifest_reader

__all__ = ["manifest_reader"]
