"""The read option `tolerant`: harmless deviations of manifests are warnings for a query, and errors for a change of the table."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run
from tests.table.deviating import list_path, made, one_more_added, rewrite, warned

from icefloe import SqlCatalog
from icefloe.spark import attach
from icefloe.spec.tolerance import Deviation

pytestmark = pytest.mark.spark


def test_a_query_reads_tolerantly_with_the_option_and_a_change_never_does(spark: SparkSession, sql: Run, tmp_path: Path) -> None:
    folder = tmp_path / "deviating"
    folder.mkdir()
    rewrite(list_path(made(folder)), one_more_added)
    attach(spark, "deviating", SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder)))

    def read(option: str | None) -> int:
        reader = spark.read if option is None else spark.read.option("tolerant", option)
        return len(reader.table("deviating.db.t").where("n >= 0 or n is null").collect())

    with warned(Deviation.MANIFEST_FILE_COUNT):
        assert read("true") == 90
    with warned(Deviation.MANIFEST_FILE_COUNT):
        assert spark.read.option("tolerant", "true").table("deviating.db.t").count() == 90
    for option in (None, "false"):
        with pytest.raises(Exception, match="the manifest list counts"):
            read(option)
    with pytest.raises(Exception, match="not true or false"):
        read("perhaps")
    with pytest.raises(Exception, match="the manifest list counts"):
        sql("DELETE FROM deviating.db.t WHERE n = 50")
