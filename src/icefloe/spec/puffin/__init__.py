"""Puffin files: the container format of blobs, deletion vectors, and theta sketches. This package does not depend on manifests or tables."""
