"""The compiled manifest codec: C that runs steps over blocks, columns in and out. Where it is missing, manifests are read by fastavro. Layer: kernel.avro."""
