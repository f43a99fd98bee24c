"""Spark: a session that works without Java set up, and Spark as an engine of tables. The only floor that imports pyspark.

Public doors: `icefloe.spark.session(...)` starts or finds a session; `icefloe.spark.attach(...)` makes a catalog known to its SQL. Floor: spark.
"""

from icefloe.spark.session import session as session
from icefloe.spark.sql.attach import attach as attach
