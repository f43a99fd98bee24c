"""Parquet files: columns of all files by name, nanoseconds, and footers that are not trusted."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.loading.conftest import Load, rows_of, types_of

from icefloe import SqlCatalog
from icefloe.errors import (
    DataFileFormatError,
    InvalidInputError,
    InvalidPropertyError,
    InvalidSchemaError,
    SchemaMismatchError,
    UnsupportedTypeError,
)
from icefloe.loading import load_files

NANOSECONDS = pa.table({"id": [1, 2], "t": pa.array([-1, 1_500_000_000_000_000_789], pa.timestamp("ns", "UTC"))})


def test_rows_are_loaded_with_their_types_and_unusual_names(load: Load) -> None:
    rows = pa.table(
        {
            "id": [1, 2],
            "a.b": ["x", None],
            "`c d`": pa.array(["p", "q"]).dictionary_encode(),
            "tags": [["a"], None],
            "o": [{"x": 1.5}, None],
            "day": [dt.date(2024, 1, 1)] * 2,
        }
    )
    pq.write_table(rows, "p [1]{x}'*.parquet")
    result = load("p [1]{x}'*.parquet", partition=["bucket(4, id)"])
    assert rows_of(result) == rows.to_pylist()


def test_a_file_with_two_columns_of_one_name_is_refused(load: Load, nothing_remains: Callable[[], None]) -> None:
    pq.write_table(pa.table([[1], [2]], names=["id", "id"]), "a.parquet")
    with pytest.raises(InvalidSchemaError, match=r"a\.parquet: the file has columns of the same name: 'id'"):
        load("a.parquet")
    nothing_remains()


def test_the_columns_of_all_files_are_merged_by_name(load: Load) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "a": ["x"]}), "1.parquet")
    pq.write_table(pa.table({"b": [1.5], "id": pa.array([2], pa.int64())}), "2.parquet")
    result = load(["1.parquet", "2.parquet"])
    assert types_of(result) == {"id": "long", "a": "string", "b": "double"}
    assert rows_of(result) == [{"id": 1, "a": "x", "b": None}, {"id": 2, "a": None, "b": 1.5}]


def test_columns_whose_types_cannot_be_joined_are_refused(load: Load) -> None:
    pq.write_table(pa.table({"id": [1]}), "1.parquet")
    pq.write_table(pa.table({"id": ["x"]}), "2.parquet")
    with pytest.raises(InvalidSchemaError, match="cannot be joined"):
        load(["1.parquet", "2.parquet"])


def test_nanoseconds_are_refused_with_the_option_that_cuts_them(load: Load, nothing_remains: Callable[[], None]) -> None:
    pq.write_table(NANOSECONDS, "a.parquet")
    with pytest.raises(UnsupportedTypeError, match=r"nanoseconds.*: t(.|\n)*--cast-nanos"):
        load("a.parquet")
    nothing_remains()


def test_nanoseconds_are_cut_on_request(load: Load) -> None:
    nested = NANOSECONDS.append_column(
        "o", pa.array([{"l": [t]} for t in NANOSECONDS["t"]], pa.struct([("l", pa.list_(pa.timestamp("ns", "UTC")))]))
    )
    pq.write_table(nested, "a.parquet")
    result = load("a.parquet", cast_nanos=True)
    assert types_of(result)["t"] == "timestamptz"
    before_1970 = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
    assert [row["t"] for row in rows_of(result)] == [before_1970, dt.datetime(2017, 7, 14, 2, 40, 0, 0, tzinfo=dt.UTC)]
    assert rows_of(result)[1]["o"]["l"] == [rows_of(result)[1]["t"]]


def test_nanoseconds_stay_in_tables_of_version_3(load: Load) -> None:
    pq.write_table(NANOSECONDS, "a.parquet")
    result = load("a.parquet", properties={"format-version": "3"})
    assert types_of(result)["t"] == "timestamptz_ns"
    result = load("a.parquet")
    assert result.table.scan().to_arrow()["t"].cast(pa.int64()).to_pylist() == [-1, 1_500_000_000_000_000_789] * 2


@pytest.mark.parametrize(("default", "override", "given"), [("3", None, None), ("2", None, "3"), ("2", "3", "2")])
def test_the_catalog_s_properties_of_new_tables_decide_whether_nanoseconds_stay(
    tmp_path: Path, default: str, override: str | None, given: str | None
) -> None:
    pq.write_table(NANOSECONDS, "a.parquet")
    configured = {"table-default.format-version": default} | ({} if override is None else {"table-override.format-version": override})
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake"), **configured)
    result = load_files(catalog, "n.t", "a.parquet", properties={} if given is None else {"format-version": given})
    assert (types_of(result)["t"], result.table.metadata.format_version) == ("timestamptz_ns", 3)


def test_nanoseconds_are_refused_where_the_catalog_overrides_the_format_version(tmp_path: Path) -> None:
    pq.write_table(NANOSECONDS, "a.parquet")
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("default", uri=uri, warehouse=str(tmp_path / "lake"), **{"table-override.format-version": "2"})
    with pytest.raises(UnsupportedTypeError, match=r"nanoseconds.*: t"):
        load_files(catalog, "n.t", "a.parquet", properties={"format-version": "3"})


def test_a_format_version_that_is_no_number_is_refused(load: Load, nothing_remains: Callable[[], None]) -> None:
    pq.write_table(NANOSECONDS, "a.parquet")
    with pytest.raises(InvalidPropertyError, match="format-version is 'three'"):
        load("a.parquet", properties={"format-version": "three"})
    nothing_remains()


def test_rows_that_do_not_fit_the_table_are_refused_by_column(load: Load) -> None:
    pq.write_table(pa.table({"id": [1]}), "a.parquet")
    pq.write_table(pa.table({"id": ["text"], "extra": [1]}), "b.parquet")
    load("a.parquet")
    with pytest.raises(SchemaMismatchError) as refused:
        load("b.parquet")
    assert [problem.where for problem in refused.value.problems] == ["id", "extra"]


def test_a_null_in_a_required_column_is_a_bad_row(catalog: SqlCatalog) -> None:
    catalog.create_namespace("n")
    catalog.create_table("n.t", pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]))
    pq.write_table(pa.table({"id": [1, None, 3], "v": ["a", "b", "c"]}), "a.parquet")
    with pytest.raises(InvalidInputError, match=r"1 of 3 rows.*\n.*a\.parquet line 2, column 'id': has no value"):
        load_files(catalog, "n.t", "a.parquet")
    assert load_files(catalog, "n.t", "a.parquet", bad_rows="skip").write.added_records == 2


@pytest.mark.parametrize("content", [b"no parquet at all", b"PAR1" + b"\xff" * 40 + b"PAR1", b""])
def test_a_damaged_file_is_refused_by_name(load: Load, content: bytes, nothing_remains: Callable[[], None]) -> None:
    Path("a.parquet").write_bytes(content or b"PAR1PAR1")
    with pytest.raises(DataFileFormatError, match=r"a\.parquet"):
        load("a.parquet")
    nothing_remains()


def test_a_truncated_file_is_refused(load: Load, nothing_remains: Callable[[], None]) -> None:
    pq.write_table(pa.table({"id": range(1000)}), "a.parquet")
    content = bytearray(Path("a.parquet").read_bytes())
    content[10:400] = b"\xff" * 390
    Path("a.parquet").write_bytes(content)
    with pytest.raises(DataFileFormatError, match=r"a\.parquet"):
        load("a.parquet")
    nothing_remains()


def test_files_without_rows_are_refused(load: Load, nothing_remains: Callable[[], None]) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int32())}), "a.parquet")
    with pytest.raises(InvalidInputError, match="there are no rows"):
        load("a.parquet")
    nothing_remains()


def test_ids_in_a_file_are_another_table_s(load: Load) -> None:
    fields = [pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "2"}), pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]
    pq.write_table(pa.table([[1], [2]], schema=pa.schema(fields)), "a.parquet")
    assert rows_of(load("a.parquet")) == [{"a": 1, "id": 2}]
