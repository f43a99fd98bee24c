"""The command line `icefloe`: commands that load files into tables, show, change and maintain tables, and run servers and a demonstration."""
