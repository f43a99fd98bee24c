"""Data files of all three formats: Java and PyIceberg read what Icefloe wrote, Icefloe reads what Java wrote, and both write equal metrics for equal rows."""

import base64
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.rows import comparable
from tests.oracle.test_reading_each_other import SCHEMA, rows, without_bytes

from icefloe import SqlCatalog, StaticTable
from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.file_metrics import leaves_of
from icefloe.datafile.write_target import WriteTarget
from icefloe.io.local_file_io import LocalFileIO

pytestmark = pytest.mark.oracle
FORMATS = ("parquet", "orc", "avro")

_COLUMNS = """id bigint not null, flag boolean, small int, f float, d double, m9 decimal(9,2), m18 decimal(18,3), m38 decimal(38,10), day date,
at timestamp_ntz,
atz timestamp, text string, raw binary,
st struct<x:int,y:struct<z:string>>, li array<int>, ma map<string,bigint>, mi map<int,struct<a:double>>"""
_ROW_SQL = """select /*+ COALESCE(1) */ id, id % 2 = 0, int(-id), float(if(id=3,'NaN',if(id=4,'-0.0',id/4))), double(if(id=5,'NaN',if(id=1,'0.0',-id/8))),
cast(id*7-5 as decimal(9,2)), cast(id*1000003 as decimal(18,3)), cast(id*100000000000000001 as decimal(38,10)), date'1969-12-30'+int(id),
timestamp_ntz'1969-12-31 23:59:59.999999'+make_interval(0,0,0,0,0,int(id)), timestamp'2020-01-01 00:00:00.000001'+make_interval(0,0,0,0,int(id)),
if(id=2,null,concat(repeat('é',15),'y',id)),
unhex(concat('FF0',id)), if(id=1,null,named_struct('x',int(id),'y',if(id=2,null,named_struct('z',concat('z',id))))),
if(id=3,null,array(int(id),null)), map('k',id), map(int(id),named_struct('a',double(id)/2)) from range(1, 7)"""

# Writes a table in each format, and prints the rows and the metrics of each file.
_JAVA = """
import base64, json

def text(value):
    return base64.b64encode(bytes(value)).decode() if isinstance(value, (bytes, bytearray)) else value

found = {{}}
for form in {forms!r}:
    name = 'j.db.' + form
    properties = "tblproperties ('format-version'='2', 'write.format.default'='" + form + "')"
    spark.sql("create table " + name + ''' ({columns}) using iceberg ''' + properties)
    spark.sql("insert into " + name + ''' {rows}''')
    spark.sql("insert into " + name + " select 100" + ", null" * 16)
    lines = [json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in spark.table(name).collect()]
    files = []
    for row in spark.sql("select * from " + name + ".files").collect():
        one = row.asDict(recursive=True)
        metrics = {{}}
        for kind in ('value_counts', 'null_value_counts', 'nan_value_counts', 'lower_bounds', 'upper_bounds'):
            metrics[kind] = {{str(key): text(value) for key, value in (one[kind] or {{}}).items()}}
        metrics.update(record_count=one['record_count'], file_format=one['file_format'])
        files.append(metrics)
    found[form] = {{'rows': lines, 'files': files}}
print('RESULT' + json.dumps(found, default=str))
"""


@pytest.fixture(scope="module")
def by_java(java_script: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return tables of all of Spark's types in each format, with the rows and the metrics of each file that Java reports."""
    folder = tmp_path_factory.mktemp("formats")
    printed = java_script(_JAVA.format(forms=FORMATS, columns=_COLUMNS, rows=_ROW_SQL), str(folder))
    line = next(text for text in printed.splitlines() if text.startswith("RESULT"))
    return folder, json.loads(line.removeprefix("RESULT"))


def _java_table(folder: Path, form: str) -> StaticTable:
    metadata = max((folder / "db" / form / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    return StaticTable.from_metadata(str(metadata))


def _plain(found: list[dict[str, Any]]) -> list[str]:
    """Return rows without bytes, which Java's script prints in its own way, and with NaN as text."""
    return comparable([{key: _nan_as_text(value) for key, value in row.items() if key != "raw"} for row in found])


def _nan_as_text(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("form", FORMATS)
def test_icefloe_reads_the_files_that_java_wrote(by_java: tuple[Path, dict[str, Any]], form: str) -> None:
    folder, java_files = by_java
    expected = [json.loads(line) for line in java_files[form]["rows"]]
    table = _java_table(folder, form)
    found = table.scan().to_arrow()
    rows_found = found.to_pylist(maps_as_pydicts="strict")
    assert {file["file_format"] for file in java_files[form]["files"]} == {form.upper()}
    assert len(rows_found) == 7
    assert _plain(rows_found) == _plain(expected)
    assert sorted(row["raw"] for row in rows_found if row["raw"]) == [bytes([255, number]) for number in range(1, 7)]


@pytest.mark.parametrize("form", FORMATS)
def test_java_and_icefloe_write_equal_metrics_for_equal_rows(by_java: tuple[Path, dict[str, Any]], tmp_path: Path, form: str) -> None:
    folder, java_files = by_java
    table = _java_table(folder, form)
    schema = table.schema()
    rows_of = table.scan("id < 50").to_arrow()
    target = WriteTarget(
        table_name="t",
        schema=schema,
        data_location=str(tmp_path),
        io=LocalFileIO(),
        operation_uuid="op",
        properties={"write.format.default": form},
    )
    (ours,) = write_batches(target, rows_of.to_batches(), partition_id=0, task_id=0)
    compared = 0
    # For lists, maps and structs as a whole, and for their elements, Java has counts in some formats and none in others.
    every = [leaf.field_id for leaf in leaves_of(schema) if not leaf.repeated]
    theirs = [file for file in java_files[form]["files"] if file["record_count"] > 1]
    assert len(theirs) == 1
    for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        expected = theirs[0][name]
        if not expected:
            continue  # Java has no such metrics for these files
        if name.endswith("counts") and form == "orc":
            # Under a null struct ORC counts nothing, and Java uses ORC's counts; Parquet counts a null there, and so does Icefloe.
            leaves = [field.field_id for field in schema.fields if field.field_type.is_primitive]
        else:
            leaves = every
        values = {number: value for number, value in (getattr(ours, name) or {}).items() if number in leaves}
        found = {str(number): base64.b64encode(value).decode() if isinstance(value, bytes) else value for number, value in values.items()}
        same = {number: value for number, value in expected.items() if int(number) in leaves}
        assert {number: found.get(number) for number in same} == same, name
        # ORC keeps no bounds of bytes, so Java has none; Icefloe computes them from the rows.
        assert set(found) - set(same) <= ({str(schema.find_id("raw"))} if form == "orc" else set()), name
        compared += len(found)
    assert compared > 50 or form == "avro"


def _ours(folder: Path, form: str) -> Any:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=["bucket(2, id)"], properties={"write.format.default": form})
    table.append(rows(0, 40))
    table.delete("id >= 10 and id < 15")
    assert {file.file.file_path.rsplit(".", 1)[1] for file in table.scan().plan_files()} == {form}
    return table


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_java_reads_the_files_that_icefloe_wrote(java_rows: Callable[..., list[dict[str, Any]]], tmp_path: Path, form: str) -> None:
    table = _ours(tmp_path, form)
    theirs = java_rows(table.metadata_location)
    assert comparable(without_bytes(theirs)) == comparable(without_bytes(table.scan().to_arrow().to_pylist()))
    assert len(theirs) == 35


def test_pyiceberg_reads_the_orc_files_that_icefloe_wrote(pyiceberg: Callable[..., str], tmp_path: Path) -> None:
    table = _ours(tmp_path, "orc")
    printed = pyiceberg(
        """
import json, sys
from pyiceberg.table import StaticTable
rows = StaticTable.from_metadata(sys.argv[1]).scan().to_arrow().to_pylist()
print(json.dumps([{key: value for key, value in row.items() if key != "raw"} for row in rows], default=str))
""",
        table.metadata_location,
    )
    theirs = json.loads(printed.splitlines()[-1])
    assert comparable(without_bytes(theirs)) == comparable(without_bytes(table.scan().to_arrow().to_pylist()))
