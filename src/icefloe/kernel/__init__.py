"""The format: pure rules over values and Arrow arrays. It opens no file, asks no clock, draws no random number; storage, time and ids come through `ports.py`."""
