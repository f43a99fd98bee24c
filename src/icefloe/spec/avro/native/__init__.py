"""The compiled manifest codec in C, which runs decode steps over blocks and returns columns. Without it, manifests are read with fastavro."""
