"""What the Iceberg specification defines, as values and rules over Arrow arrays. Nothing here opens a file, reads a clock or shows anything: see `ports.py`."""
