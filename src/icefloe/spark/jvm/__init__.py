"""The few Java sources, and how Spark's own compiler makes classes of them (`compile.py`). Every decision stays in Python. Floor: spark."""
