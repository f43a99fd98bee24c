"""Spark jobs of Icefloe: running jobs, and the errors and values of their tasks."""
