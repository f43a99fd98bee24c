"""Views: their metadata as values, their JSON and their updates. The kernel opens no file and does not parse SQL."""
