"""Table metadata: its values, its JSON, the rules it keeps and the changes it takes. Floor: kernel, above partitioning and manifest_list."""
