"""The command line `icefloe`: files into tables, a look inside, and a demonstration."""
