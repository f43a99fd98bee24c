"""Writes: the write builder, the distribution of rows, jobs that write data files, and the clean-up of files of failed attempts."""
