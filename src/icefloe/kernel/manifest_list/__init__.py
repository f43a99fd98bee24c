"""Manifest lists: the manifests of a snapshot as values and as bytes. Floor: kernel.manifest_list. Spec: Manifest Lists."""
