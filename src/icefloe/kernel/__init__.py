"""The format: pure rules over values and Arrow arrays. Storage, time and ids come through `ports.py`; it opens no file, asks no clock, draws no random number."""
