"""Tables in sessions without a JVM in this process, such as Spark Connect: the Python data source `icefloe`, and planned reads by Spark's public functions.

`icefloe.spark.scan.read_strategy` reads in classic sessions.
"""
