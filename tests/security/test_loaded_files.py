"""What a Parquet file's footer states for Spark is not run, unpickled or evaluated when the file is loaded by Spark or Arrow."""

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from icefloe import SqlCatalog
from icefloe.loading.file_load import FileLoad
from icefloe.loading.input_files import find_files
from icefloe.loading.load_request import LoadRequest
from icefloe.spark.scan.input_file_rows import read_files

pytestmark = pytest.mark.spark
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


class Touches:
    """A value whose pickle makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def written(path: Path, rows: pa.Table, fields: list[dict[str, Any]]) -> str:
    schema = json.dumps({"type": "struct", "fields": fields})
    pq.write_table(rows.replace_schema_metadata({SPARK_SCHEMA: schema.encode()}), path)
    return str(path)


def column(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def loaded(spark: SparkSession, folder: Path, paths: list[str]) -> DataFrame:
    """Return the rows as Spark reads them, after checking that Arrow reads the same."""
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "lake"))
    load = FileLoad(catalog, "n.t", find_files(paths, None), LoadRequest())
    load.open()
    frame = read_files(spark, load.spark_request())
    assert sorted(frame.toArrow().to_pylist(), key=str) == sorted(load.rows().read_all().to_pylist(), key=str)
    return frame


def test_a_user_defined_type_in_a_footer_is_not_unpickled(spark: SparkSession, tmp_path: Path) -> None:
    code = base64.b64encode(pickle.dumps(Touches(tmp_path / "ran"))).decode()
    hostile = {"type": "udt", "pyClass": "__main__.Hostile", "serializedClass": code, "sqlType": "long"}
    path = written(tmp_path / "f.parquet", pa.table({"n": [7]}), [column("n", hostile)])
    frame = loaded(spark, tmp_path, [path])
    assert not (tmp_path / "ran").exists()
    assert frame.collect() == [(7,)]


def test_an_expression_in_the_metadata_of_a_field_is_no_default(spark: SparkSession, tmp_path: Path) -> None:
    default = {"EXISTS_DEFAULT": "40 + 2", "CURRENT_DEFAULT": "40 + 2", "comment": "a number"}
    fields = [column("n", "long"), column("m", "long", **default)]
    paths = [
        written(tmp_path / "1.parquet", pa.table({"n": [1], "m": [1]}), fields),
        written(tmp_path / "2.parquet", pa.table({"n": [2]}), fields[:1]),
    ]
    frame = loaded(spark, tmp_path, paths)
    assert [field.metadata for field in frame.schema] == [{}, {}]
    assert sorted(frame.collect()) == [(1, 1), (2, None)]
