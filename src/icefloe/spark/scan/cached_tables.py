"""`recache`: rows of a table that Spark keeps (`CACHE TABLE`, `DataFrame.cache`) are read anew once they have changed.

Spark does so after what it runs itself. From 4.1 on it takes kept rows for the table's until then; before, a changed table is another one to it.
"""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from icefloe.spark.scan.filter_columns import quoted


def recache(spark: SparkSession, name: Sequence[str]) -> None:
    """Of the table of a name, its catalog first. The rows themselves are read when they are wanted."""
    session = spark._jsparkSession
    if not session.sharedState().cacheManager().isEmpty():
        session.catalog().refreshTable(".".join(map(quoted, name)))
