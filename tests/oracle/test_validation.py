"""Tables that other engines wrote break no rule that `icefloe validate --values` has, except those that they really break."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from icefloe.inspect import validate
from icefloe.table import StaticTable

pytestmark = pytest.mark.oracle
JAVA_TABLES = ("v1_cow", "v2_posdel", "v3_dv", "evo", "eqdel", "v3x")

PYICEBERG = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, DoubleType, ListType, LongType, NestedField, StringType, StructType, TimestampType

folder = sys.argv[1]
catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
catalog.create_namespace("db")
schema = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "kind", StringType(), required=False),
    NestedField(3, "at", TimestampType(), required=False),
    NestedField(4, "x", DoubleType(), required=False),
    NestedField(5, "price", DecimalType(9, 2), required=False),
    NestedField(6, "s", StructType(NestedField(7, "a", LongType(), required=False)), required=False),
    NestedField(8, "l", ListType(9, StringType(), False), required=False),
)
spec = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "kind"),
)
places = []
for version in ("1", "2"):
    table = catalog.create_table(f"db.t{version}", schema=schema, partition_spec=spec, properties={"format-version": version})
    import datetime as dt, decimal
    rows = pa.Table.from_pylist([
        {"id": n, "kind": None if n == 7 else "kind" * (n % 3), "at": dt.datetime(2024, 1, 1 + n % 3, n), "x": float("nan") if n == 2 else n / 2,
         "price": decimal.Decimal(n) / 4, "s": None if n == 3 else {"a": n}, "l": ["p", None]}
        for n in range(20)
    ], schema=table.schema().as_arrow())
    table.append(rows)
    table.delete("id < 4")
    with table.update_schema() as update:
        update.add_column("more", StringType())
    table.append(rows.slice(10, 3))
    table.overwrite(rows.slice(0, 2), "id = 12")
    places.append(table.metadata_location)
print(json.dumps({"places": places}))
"""


def findings_of(metadata: str) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = validate(StaticTable.from_metadata(metadata), files=True, data=True, values=True)
    return {f"{finding.rule}: {finding.message}" for finding in found.findings}


@pytest.mark.parametrize("name", JAVA_TABLES)
def test_a_table_that_java_wrote_breaks_no_rule(java_tables: Path, name: str) -> None:
    folder = java_tables / "db" / name / "metadata"
    newest = max(folder.glob("*.metadata.json"), key=lambda path: (json.loads(path.read_text())["last-updated-ms"], path.name))
    assert findings_of(str(newest)) == set()


def test_tables_that_pyiceberg_wrote_break_no_rule(pyiceberg: Callable[..., str], tmp_path: Path) -> None:
    places = json.loads(pyiceberg(PYICEBERG, str(tmp_path)).splitlines()[-1])["places"]
    assert [findings_of(place) for place in places] == [set(), set()]
