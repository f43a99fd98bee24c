"""Validation of stored tables: the rules of the specification, and the functions that find violations of them."""
