"""Spark: a session that works without Java set up, and Spark as an engine of tables. The only floor that imports pyspark.

A public door: `icefloe.spark.session(...)` starts or finds a session. Floor: spark.
"""

from icefloe.spark.session import session as session
