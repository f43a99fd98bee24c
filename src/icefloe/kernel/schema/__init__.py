"""Schemas, and their forms in JSON and Arrow."""
