"""Manifest lists: the manifests of a snapshot as values and as bytes. Spec: Manifest Lists."""
