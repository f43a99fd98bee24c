"""The start of Spark: sessions, the Java runtime, supported versions, interrupts, secrets among the settings."""
