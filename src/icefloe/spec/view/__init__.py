"""Views: their metadata as values, their JSON and their updates. No file is opened and no SQL is parsed here."""
