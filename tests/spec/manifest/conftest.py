"""Every test of manifests runs with the compiled reader and with the one over fastavro."""

from tests.spec.avro.both_readers import manifest_reader

__all__ = ["manifest_reader"]
