"""Schemas: columns and their field ids, evolution, default values, name mappings, and their forms in JSON and Arrow."""
