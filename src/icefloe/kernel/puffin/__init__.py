"""Puffin files: the container of blobs, and the deletion vectors kept in it. It knows no manifest and no table."""
