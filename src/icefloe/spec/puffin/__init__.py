"""Puffin files: the container of blobs, deletion vectors and theta sketches. Manifests and tables are not known here."""
