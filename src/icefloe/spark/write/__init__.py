"""Writes: the write builder, distribution, jobs that write data files, clean-up of failed attempts."""
