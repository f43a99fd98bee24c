"""Manifests: entries and data files as values, as Arrow columns, and as bytes. Spec: Manifests."""
