"""Table metadata: its values, JSON and invariants, and the updates and requirements of commits."""
