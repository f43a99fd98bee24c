"""`snapshot`: a table over Parquet or ORC files of others: their rows, nothing of them deleted, and sources that cannot be read right refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from tests.maintenance.test_rewrite_table_path import files_below

from icefloe import SqlCatalog
from icefloe.errors import (
    DataFileFormatError,
    InvalidInputError,
    NoSuchFileError,
    NoSuchTableError,
    SchemaMismatchError,
    TableAlreadyExistsError,
)
from icefloe.migration.snapshot_table import snapshot_table
from icefloe.procedures import call
from icefloe.spec.types import DateType, IntegerType, LongType, StringType


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    return catalog


def write(folder: Path, ids: list[int], name: str = "x.parquet") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "note": [f"n{number}" for number in ids]}), folder / name)
    return folder / name


def test_a_folder_becomes_a_table_whose_writes_leave_it_as_it_is(lake: SqlCatalog, tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source / "day=2024-01-31" / "shop=1", [1, 2])
    write(source / "day=2024-02-01" / "shop=2", [3])
    write(source / "day=__HIVE_DEFAULT_PARTITION__" / "shop=2", [4])
    before = files_below(source)
    planned = snapshot_table(lake, str(source), "db.t", dry_run=True)
    assert (planned.imported_files, planned.imported_records, planned.partition_columns) == (3, 4, ("day", "shop"))
    with pytest.raises(NoSuchTableError):
        lake.load_table("db.t")
    assert call(lake, "snapshot", source_table=f"parquet.`{source}`", table="db.t", properties={"a": "b"}) == [{"imported_files_count": 3}]
    table = lake.load_table("db.t")
    assert [column.field_type for column in table.schema().fields] == [LongType(), StringType(), DateType(), IntegerType()]
    assert sorted((row["id"], row["note"], str(row["day"]), row["shop"]) for row in table.scan().to_arrow().to_pylist()) == [
        (1, "n1", "2024-01-31", 1),
        (2, "n2", "2024-01-31", 1),
        (3, "n3", "2024-02-01", 2),
        (4, "n4", "None", 2),
    ]
    assert {key: table.properties[key] for key in ("gc.enabled", "snapshot", "a")} == {"gc.enabled": "false", "snapshot": "true", "a": "b"}
    assert table.scan("day = '2024-01-31'").plan().kept.files == 1
    table.append(pa.table({"id": [9], "note": ["new"], "day": [None], "shop": [7]}, schema=table.schema().as_arrow()))
    table.delete("id = 1")
    table.maintenance.rewrite_data_files(options={"rewrite-all": True})
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3, 4, 9]
    with pytest.raises(InvalidInputError, match=r"gc\.enabled"):
        table.expire_snapshots(10**14)
    assert files_below(source) == before


def test_orc_files_become_a_table(lake: SqlCatalog, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    orc.write_table(pa.table({"id": [1, 2]}), tmp_path / "source/x.orc")
    assert snapshot_table(lake, str(tmp_path / "source"), "db.t").imported_records == 2
    assert lake.load_table("db.t").scan().to_arrow()["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-5"], IntegerType()),
        (["1", str(2**40)], LongType()),
        (["01", "2"], StringType()),
        (["2024-01-01"], DateType()),
        (["2024-01-01", "x"], StringType()),
        (["20240101"], IntegerType()),
        (["1" * 40], StringType()),
        (["__HIVE_DEFAULT_PARTITION__"], StringType()),
        (["²"], StringType()),
        (["a+b", "null"], StringType()),
        (["null", "1"], StringType()),
    ],
)
def test_partition_columns_have_the_type_of_all_their_values(lake: SqlCatalog, tmp_path: Path, texts: list[str], kind: object) -> None:
    for number, text in enumerate(texts):
        write(tmp_path / "source" / f"p={text}", [number])
    result = snapshot_table(lake, str(tmp_path / "source"), "db.t")
    assert result.schema.find_type("p") == kind
    expected = [None if text.startswith("__") else text for text in texts]
    found = lake.load_table("db.t").scan().to_arrow().sort_by("id")["p"].to_pylist()
    assert [None if value is None else str(value) for value in found] == expected


def test_sources_that_would_be_read_wrong_are_refused(lake: SqlCatalog, tmp_path: Path) -> None:
    source = tmp_path / "mixed"
    write(source / "day=1", [1])
    write(source / "shop=1", [2])
    with pytest.raises(SchemaMismatchError, match="partition columns"):
        snapshot_table(lake, str(source), "db.t")
    write(tmp_path / "bytes" / "p=%FF", [1])
    with pytest.raises(SchemaMismatchError, match="not UTF-8"):
        snapshot_table(lake, str(tmp_path / "bytes"), "db.t")
    with_ids = tmp_path / "ids"
    with_ids.mkdir()
    fields = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)}) for name, number in (("a", 2), ("b", 1))]
    pq.write_table(pa.table({"a": [1], "b": [2]}).cast(pa.schema(fields)), with_ids / "y.parquet")
    with pytest.raises(SchemaMismatchError, match="field ids"):
        snapshot_table(lake, str(with_ids), "db.t")
    write(with_ids, [1], "a.parquet")
    with pytest.raises(SchemaMismatchError):
        snapshot_table(lake, str(with_ids), "db.t")
    for number, columns in enumerate(({"Id": [1]}, {"other": [1]}, {"id": ["text"]})):
        folder = tmp_path / f"columns{number}"
        write(folder, [1])
        pq.write_table(pa.table(columns), folder / "y.parquet")
        if "other" in columns:
            assert snapshot_table(lake, str(folder), f"db.more{number}").schema.names == ["id", "note", "other"]
            assert lake.load_table(f"db.more{number}").scan("other = 1").count() == 1
            lake.drop_table(f"db.more{number}")
        else:
            with pytest.raises(SchemaMismatchError, match=r"in other letters|different types"):
                snapshot_table(lake, str(folder), "db.t")
    other = tmp_path / "other"
    write(other, [1])
    (other / "z.csv").write_text("1,2\n")
    with pytest.raises(DataFileFormatError, match=r"z\.csv"):
        snapshot_table(lake, str(other), "db.t")
    with pytest.raises(NoSuchFileError):
        snapshot_table(lake, str(tmp_path / "nowhere"), "db.t")
    with pytest.raises(InvalidInputError, match="one is within the other"):
        snapshot_table(lake, str(source / "day=1"), "db.t", location=str(source / "day=1/table"))
    with pytest.raises(InvalidInputError, match="one is within the other"):
        snapshot_table(lake, str(source / "day=1"), "db.t", location=str(source))
    with pytest.raises(InvalidInputError, match="parallelism"):
        call(lake, "snapshot", source_table=str(source), table="db.t", parallelism=0)
    assert lake.list_tables("db") == []
    lake.create_table("db.t", pa.schema([("id", pa.int64())]))
    for dry_run in (True, False):
        with pytest.raises(TableAlreadyExistsError):
            snapshot_table(lake, str(source / "day=1"), "db.t", dry_run=dry_run)
