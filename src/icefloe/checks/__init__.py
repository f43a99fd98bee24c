"""Validation of stored tables: the rules of the specification, and the run that finds what breaks them."""
