"""Jobs of table maintenance."""
