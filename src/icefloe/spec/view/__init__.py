"""Views: their metadata as values, their JSON and their updates. Nothing here opens a file or parses SQL."""
