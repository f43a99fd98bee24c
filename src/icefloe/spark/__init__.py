"""Spark: a session that works without Java set up, and Spark as an engine of tables. The only floor that imports pyspark.

Public doors: `icefloe.spark.session(...)` starts or finds a session; `icefloe.spark.attach(...)` makes a catalog known to its SQL;
`table` reads a table in any
session, Spark Connect too, and `register` makes the data source `icefloe` known; `PROVEN_VERSIONS` are Spark's on which all of it is proven. An older PySpark
is refused by `versions`, which so comes first.
"""

from icefloe.spark.runtime.spark_versions import PROVEN_VERSIONS as PROVEN_VERSIONS

# isort: split
from icefloe.spark.attach_catalog import attach as attach
from icefloe.spark.connect.connect_table import Reading as Reading
from icefloe.spark.connect.connect_table import reading_of as reading_of
from icefloe.spark.connect.connect_table import table as table
from icefloe.spark.connect.register import register as register
from icefloe.spark.session_with_catalogs import session as session
