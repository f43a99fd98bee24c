"""The definitions of the Iceberg specification, as values and rules over Arrow arrays. This package opens no files and reads no clock: see `ports.py`."""
