"""Tables where there is no JVM at hand, as in Spark Connect: the Python data source `icefloe`, and planned reads by Spark's public functions.

The classic session's own scan is `icefloe.spark.scan.read_strategy`.
"""
