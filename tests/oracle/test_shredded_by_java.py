"""Shredded variants, beside those that Java's Iceberg writes of the same rows: the same columns in Parquet, and the same bytes in each row."""

import datetime as dt
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe import LongType, NestedField, Schema, SqlCatalog, Table, VariantType, variant_from_python
from icefloe.spark.runtime.java_runtime import find_java
from icefloe.spec.schema.arrow_extensions import VARIANT_STORAGE
from icefloe.spec.variant_bytes import DECIMAL16

pytestmark = pytest.mark.oracle

SCRIPT = Path(__file__).with_name("java_shredding.py")
ROOT = Path(__file__).parents[2]
SPARK = "4.1"
ARTIFACT = f"iceberg-spark-runtime-{SPARK}_2.13"
ROWS = 400  # of which the first 100 decide the columns
Values = Sequence[Any]


def newest_jar() -> Path:
    """Return the newest runtime JAR of Java's Iceberg in the local Maven cache."""
    versions = (Path.home() / f".m2/repository/org/apache/iceberg/{ARTIFACT}").glob(f"*/{ARTIFACT}-*.jar")
    jars = sorted(versions, key=lambda jar: [int(part) for part in jar.parent.name.split(".")])
    if not jars:
        pytest.skip(f"the local Maven cache has no {ARTIFACT}. Next: mvn dependency:get -Dartifact=org.apache.iceberg:{ARTIFACT}:1.12.0")
    return jars[-1]


def python_of_spark() -> Path:
    python = Path(sys.executable) if version("pyspark").startswith(SPARK) else ROOT / f".venvs/spark-{SPARK}/bin/python"
    if not python.exists():
        pytest.skip(f"there is no PySpark {SPARK}. Next: python3 scripts/setup spark {SPARK}")
    return python


def number(chosen: random.Random) -> Any:
    return chosen.choice((chosen.randrange(-128, 128), chosen.randrange(-(2**15), 2**15), chosen.randrange(-(2**31), 2**31), 2**40))


def fraction(chosen: random.Random) -> Decimal:
    digits = chosen.choice((3, 8, 12, 17, 25, 30))
    return Decimal(chosen.randrange(-(10**digits), 10**digits)).scaleb(-chosen.randrange(6))


def text(chosen: random.Random) -> str:
    return "é" * chosen.randrange(3) + "x" * chosen.choice((0, 1, 62, 63, 64, 300))


COLUMNS = {
    "integers": number,
    "decimals": fraction,
    "texts": text,
    "lists": lambda chosen: [number(chosen) for _ in range(chosen.randrange(4))],
    "nulls": lambda chosen: None,
    "leaves": lambda chosen: chosen.choice((number(chosen), text(chosen), chosen.random())),  # of several types, and so without a column
    "wide": lambda chosen: {f"f{place:03}": place for place in range(310) if chosen.random() < 0.99},
}
# Java stores decimals of 16 bytes in the column at its scale, also if their own scale is smaller; here they stay encoded and keep their scale.
RESCALED = "decimals"
# Their types have no columns here, since Spark's reader fails on them.
LEFT_ENCODED = {
    "time": dt.time(1, 2, 3),
    "uuid": UUID(int=7),
    "nanoseconds": np.datetime64(1, "ns"),
}


def variants(values: Values) -> Any:
    encoded = (None if value is ... else variant_from_python(value) for value in values)
    return pa.array([None if one is None else {"metadata": one[0], "value": one[1]} for one in encoded], VARIANT_STORAGE)


def columns() -> Iterator[tuple[str, Any]]:
    for seed, (name, made) in enumerate(COLUMNS.items()):
        chosen = random.Random(seed)
        yield name, variants([... if chosen.random() < 0.05 else made(chosen) for _ in range(ROWS)])
    for name, value in LEFT_ENCODED.items():
        yield name, variants([{"known": row, "v": value} for row in range(ROWS)])


def only_file(table: Table) -> Path:
    (task,) = table.scan().plan_files()
    return Path(task.file.file_path)


def stored_type(file: pq.ParquetFile, name: str) -> Any:
    return file.schema_arrow.field(name).type


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[pq.ParquetFile, pq.ParquetFile]:
    """Return the file of Icefloe, and that of Java."""
    jar, python, folder = newest_jar(), python_of_spark(), tmp_path_factory.mktemp("shredded")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    made = dict(columns())
    fields = [NestedField(place, name, VariantType()) for place, name in enumerate(made, 2)]
    schema = Schema(NestedField(1, "id", LongType()), *fields)
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), **made})
    properties = {"format-version": "3"}
    whole = catalog.create_table("db.whole", schema, properties=properties)
    shredded = catalog.create_table("db.shredded", schema, properties={**properties, "write.parquet.shred-variants": "true"})
    for table in (whole, shredded):
        table.append(rows)
    java_home = str(find_java().home)
    environment = {**os.environ, "JAVA_HOME": java_home, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    command = [str(python), str(SCRIPT), str(jar), str(folder / "java"), whole.metadata_location]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder, timeout=3600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    printed = json.loads(done.stdout.strip().splitlines()[-1])
    assert printed["version"] == jar.parent.name
    (file,) = printed["files"]
    return pq.ParquetFile(only_file(shredded)), pq.ParquetFile(file.removeprefix("file:"))


def test_variants_are_shredded_into_the_columns_and_bytes_of_java(written: tuple[pq.ParquetFile, pq.ParquetFile]) -> None:
    ours, theirs = written
    for name in COLUMNS:
        assert stored_type(ours, name) == stored_type(theirs, name)
        rows = zip(*(file.read([name]).to_pylist() for file in written), strict=True)
        differ = [(row[name], other[name]) for row, other in rows if repr(row) != repr(other)]
        if name == RESCALED:
            differ = [pair for pair in differ if pair[0]["value"][0] >> 2 != DECIMAL16]
        assert not differ, (name, differ[:3])


def test_values_of_types_that_spark_has_no_variants_of_are_the_only_ones_without_columns_of_java(
    written: tuple[pq.ParquetFile, pq.ParquetFile],
) -> None:
    for name in LEFT_ENCODED:
        ours, theirs = (stored_type(file, name).field("typed_value").type for file in written)
        assert [field.name for field in ours.fields] == ["known"]
        assert [field.name for field in theirs.fields] == ["known", "v"]
        assert ours.field("known") == theirs.field("known")
