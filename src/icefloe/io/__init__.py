"""Storage behind the `FileIO` port: local files, memory, object stores. Floor: above the kernel, beside datafile."""
