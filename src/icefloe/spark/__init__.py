"""Spark as an engine of tables, Icefloe's catalogs in Spark SQL, and sessions without a Java installation. This is the only package that imports pyspark.

Entry points: `session` starts or finds a session; `attach` adds a catalog to a session's SQL; `table` reads a table in any session, also of Spark Connect;
`register` adds the data source `icefloe` to a session. `PROVEN_VERSIONS` are the versions of Spark on which everything is tested. `runtime/spark_versions.py`
is imported first, because it refuses an older PySpark.
"""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports
from icefloe.spark.runtime.spark_versions import PROVEN_VERSIONS as PROVEN_VERSIONS

if TYPE_CHECKING:
    from icefloe.spark.attach_catalog import attach as attach
    from icefloe.spark.connect.connect_table import Reading as Reading
    from icefloe.spark.connect.connect_table import reading_of as reading_of
    from icefloe.spark.connect.connect_table import table as table
    from icefloe.spark.connect.register import register as register
    from icefloe.spark.session_with_catalogs import session as session
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.spark.attach_catalog": "attach",
            "icefloe.spark.connect.connect_table": "Reading, reading_of, table",
            "icefloe.spark.connect.register": "register",
            "icefloe.spark.session_with_catalogs": "session",
        },
    )
