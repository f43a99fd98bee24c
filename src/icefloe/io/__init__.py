"""Storage: implementations of the `FileIO` protocol for local files, memory and object stores; caches of manifests; and the rules for allowed locations."""
