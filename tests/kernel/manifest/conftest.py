"""Every test of manifests runs by the compiled reader and by the one over fastavro."""

from tests.kernel.avro.both_readers import manifest_reader

__all__ = ["manifest_reader"]
