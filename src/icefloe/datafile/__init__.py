"""One data file as Arrow: written and rolled, described by its metrics, read by field id, rewritten.

Storage is reached only through the port.
"""
