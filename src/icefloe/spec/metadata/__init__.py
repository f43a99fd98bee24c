"""Table metadata: its values, its JSON, its invariants, its updates and its requirements."""
