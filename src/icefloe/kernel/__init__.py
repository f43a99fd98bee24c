"""The format: pure rules over values and Arrow arrays. Storage, time and ids come through `ports.py`; it opens no file and asks no clock."""
