"""Table metadata: its values, its JSON, the rules it keeps and the changes it takes."""
