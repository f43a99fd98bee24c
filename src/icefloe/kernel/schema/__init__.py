"""Schemas, and their forms in JSON and Arrow. Floor: kernel, above types and values."""
