"""Starting and controlling Spark: sessions, the Java runtime, supported versions, interrupts, and secrets in settings."""
