"""Types that SQL engines seldom have, in evolved tables of version 3: Java's generic readers read them as Icefloe does, in every file format."""

import json
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from tests.oracle.conftest import ORACLES, run

from icefloe import (
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    Schema,
    SqlCatalog,
    StringType,
    StructType,
    Table,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
    variant_from_python,
)

pytestmark = pytest.mark.oracle
FIELDS = {
    "unknown": UnknownType(),
    "uuid": UUIDType(),
    "fixed": FixedType(4),
    "time": TimeType(),
    "ns": TimestampNanoType(),
    "tzns": TimestamptzNanoType(),
    "day": DateType(),
    "price": DecimalType(9, 2),
    "any": VariantType(),
    "many": ListType(element_id=20, element=TimestampNanoType(), element_required=False),
    "place": StructType(NestedField(21, "a", IntegerType()), NestedField(22, "nothing", UnknownType())),
}
SCHEMA = Schema(NestedField(1, "id", LongType(), True), *(NestedField(number, *one) for number, one in enumerate(FIELDS.items(), 2)))

# IcebergGenerics has every type; Spark 3.5 has neither nanoseconds nor variants. Its own commons-lang3 is too old for Java's reader of variants.
_JAVA = """
import glob, json, sys
sys.path.insert(0, sys.argv[2])
from java_session import session
newer = {{"spark.driver.extraClassPath": {lang!r}}}
spark = session(sys.argv[1], **newer)
iceberg = spark._jvm.org.apache.iceberg
def plain(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    name = value.getClass().getName() if hasattr(value, "getClass") else type(value).__name__
    if name.endswith("VariantData") or "Variant" in name:
        return {{"metadata": written(value.metadata()), "value": written(value.value())}}
    if name.endswith("Record"):
        fields = value.struct().fields()
        return {{fields.get(place).name(): plain(value.get(place)) for place in range(fields.size())}}
    if "List" in name:
        return [plain(item) for item in value]
    return value.toString() if hasattr(value, "toString") else str(value)
def written(part):
    buffer = spark._jvm.java.nio.ByteBuffer.allocate(part.sizeInBytes()).order(spark._jvm.java.nio.ByteOrder.LITTLE_ENDIAN)
    part.writeTo(buffer, 0)
    return bytes(buffer.array()).hex()
for path in json.loads({paths!r}):
    operations = iceberg.StaticTableOperations(path, iceberg.hadoop.HadoopFileIO(spark._jsc.hadoopConfiguration()))
    rows = iceberg.data.IcebergGenerics.read(iceberg.BaseTable(operations, "t")).build().iterator()
    while rows.hasNext():
        print("ROW " + json.dumps([path, plain(rows.next())]))
"""


def values(number: int) -> dict[str, Any]:
    """Return a row for Arrow in which every seventh value is null, for each column in another row."""
    row = {
        "unknown": None,
        "uuid": number.to_bytes(16, "big"),
        "fixed": bytes([0, 1, 2, number]),
        "time": number * 1_000_003,
        "ns": number * 10**9 + number - 3,
        "tzns": -number * 10**9 - 7,
        "day": date(1969, 12, 30) + timedelta(number),
        "price": Decimal(number).scaleb(-2),
        "any": stored({"a": number, "b": [1, "x", None, {"c": True}]}),
        "many": [number * 10**9 + 1, None],
        "place": {"a": number, "nothing": None},
    }
    nulled = {name: None if (number + place) % 7 == 0 else value for place, (name, value) in enumerate(row.items())}
    return {"id": number, **nulled}


def stored(value: Any) -> dict[str, bytes]:
    metadata, data = variant_from_python(value)
    return {"metadata": metadata, "value": data}


def arrow(kind: Any, rows: list[Any]) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(rows, kind.storage_type))
    return pa.array(rows, kind)


def evolved(catalog: SqlCatalog, form: str) -> Table:
    modes = {"write.delete.mode": "merge-on-read", "write.format.default": form}
    table = catalog.create_table(f"db.{form}", SCHEMA, properties={"format-version": "3", **modes})
    given = [values(number) for number in range(14)]
    kinds = table.scan().to_arrow().schema
    table.append(pa.table({field.name: arrow(field.type, [row[field.name] for row in given]) for field in kinds}))
    with table.update_schema() as update:
        update.update_column("unknown", LongType()).update_column("price", DecimalType(20, 2)).rename_column("any", "whatever")
        if form != "orc":  # Java 1.10.2 reads neither promoted dates nor defaults in ORC
            update.update_column("day", TimestampType()).add_column("place.deep", StringType(), default_value="here")
    table.delete("id = 2 or price = 0.05")
    table.append(pa.table({"id": [100], "unknown": [7]}))
    return table


def comparable(kind: Any, value: Any) -> Any:
    """Return a value of Icefloe, or the text of Java's value, in a comparable form."""
    if value is None:
        return None
    if isinstance(kind, TimestampNanoType | TimestampType | TimestamptzNanoType):
        if isinstance(value, str):
            return str(np.datetime64(value.removesuffix("Z"), "ns"))
        return str(value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value, "ns"))
    if isinstance(kind, TimeType):
        return value if isinstance(value, time) else time.fromisoformat(value)
    if isinstance(kind, UUIDType):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(kind, StructType):
        return {field.name: comparable(field.field_type, value[field.name]) for field in kind.fields}
    if isinstance(kind, ListType):
        return [comparable(kind.element, item) for item in value]
    if isinstance(kind, VariantType):
        return {name: part.hex() if isinstance(part, bytes) else part for name, part in value.items()}
    return str(value) if isinstance(value, Decimal | date) else value


def test_java_reads_rare_types_as_icefloe_does(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    tables = {table.metadata_location: table for table in (evolved(catalog, form) for form in ("parquet", "orc", "avro"))}
    (lang,) = (Path(pyspark.__path__[0]) / "jars").glob("commons-lang3-*.jar")
    printed = run("java", "-c", _JAVA.format(lang=str(lang), paths=json.dumps(list(tables))), str(tmp_path / "java"), str(ORACLES))
    theirs: dict[str, dict[int, Any]] = {path: {} for path in tables}
    for line in printed.splitlines():
        if line.startswith("ROW "):
            path, row = json.loads(line.removeprefix("ROW "))
            theirs[path][row["id"]] = row
    for path, table in tables.items():
        ours = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
        assert len(ours) == 13
        assert ours.keys() == theirs[path].keys()
        for field in table.schema().fields:
            for number, row in ours.items():
                mine, java_s = (comparable(field.field_type, one[field.name]) for one in (row, theirs[path][number]))
                assert mine == java_s, (table.properties["write.format.default"], field.name, number)
