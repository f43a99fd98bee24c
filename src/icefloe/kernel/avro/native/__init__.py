"""The compiled half of this room: C that runs steps over blocks, columns in and out. It may be missing, and nothing but time is lost. Floor: kernel.avro."""
