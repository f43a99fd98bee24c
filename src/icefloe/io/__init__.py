"""Storage behind the `FileIO` port: local files, memory, object stores."""
