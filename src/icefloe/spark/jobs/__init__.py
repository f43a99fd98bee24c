"""Spark jobs of Icefloe: running one, errors of its tasks, values of its tasks."""
