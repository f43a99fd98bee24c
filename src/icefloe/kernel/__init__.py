"""The rules of the Iceberg format, over values and Arrow arrays. Storage, time and ids come through `ports.py`; the kernel opens no file and reads no clock."""
