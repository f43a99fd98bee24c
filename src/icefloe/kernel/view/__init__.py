"""Views: their metadata as values, read, written and changed. It opens no file and understands no SQL."""
