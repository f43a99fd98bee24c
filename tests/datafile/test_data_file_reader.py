"""Reads of data files: columns found by field id after every schema change, filtered rows, skipped row groups, and files that cannot be read."""

import datetime as dt
import itertools
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.datafile.tables import IO, read, same, target, task_of, write
from tests.repetitions import examples

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.parquet import parquet_rows
from icefloe.datafile.parquet.parquet_rows import ParquetRows
from icefloe.datafile.projection import Projector
from icefloe.datafile.stored_batch import StoredBatch
from icefloe.errors import DataFileFormatError, NoSuchFileError, UnsupportedFeatureError
from icefloe.io.local_file_io import LocalFileIO
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysFalse
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, partition_spec_from_text
from icefloe.spec.schema.arrow_types import FIELD_ID_KEY, type_to_arrow
from icefloe.spec.schema.metadata_columns import POS
from icefloe.spec.schema.name_mapping import mapping_from_json
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

AT = StructType(NestedField(3, "x", IntegerType()), NestedField(4, "y", IntegerType()))
LISTED = StructType(NestedField(7, "x", IntegerType()), NestedField(8, "y", FloatType()))
MAPPED = StructType(NestedField(12, "x", IntegerType()))
OLD = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "at", AT),
    NestedField(5, "points", ListType(element_id=6, element=LISTED, element_required=False)),
    NestedField(9, "named", MapType(key_id=10, key_type=StringType(), value_id=11, value_type=MAPPED, value_required=False)),
    NestedField(13, "price", DecimalType(9, 2)),
    NestedField(14, "note", StringType()),
)
OLD_ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "at": {"x": 10, "y": 11},
        "points": [{"x": 1, "y": 1.5}, None],
        "named": [("a", {"x": 5}), ("b", None)],
        "price": Decimal("1.25"),
        "note": "n1",
    },
    {"id": 2, "at": None, "points": [], "named": [], "price": None, "note": "n2"},
    {"id": 3, "at": {"x": None, "y": 31}, "points": None, "named": None, "price": Decimal("-3.00"), "note": None},
]


@pytest.fixture
def old(tmp_path) -> DataFile:
    (file,) = write(target(tmp_path, OLD), OLD_ROWS)
    return file


def test_columns_are_found_by_field_id_after_renames_swapped_names_and_promotions(old: DataFile) -> None:
    now = Schema(
        NestedField(14, "id", StringType()),  # the name of another column
        NestedField(
            2,
            "place",
            StructType(NestedField(3, "y", LongType()), NestedField(20, "z", DateType()), NestedField(4, "x", LongType())),  # names swapped
        ),
        NestedField(
            5,
            "points",
            ListType(
                element_id=6,
                element=StructType(NestedField(8, "why", DoubleType()), NestedField(7, "ex", LongType())),
                element_required=False,
            ),
        ),
        NestedField(
            9,
            "named",
            MapType(
                key_id=10,
                key_type=StringType(),
                value_id=11,
                value_type=StructType(NestedField(21, "new", StringType()), NestedField(12, "x", LongType())),
                value_required=False,
            ),
        ),
        NestedField(13, "price", DecimalType(20, 2)),
        NestedField(1, "number", LongType(), required=True),
        NestedField(22, "added", TimestampType()),
    )
    assert read([old], now).to_pylist() == [
        {
            "id": "n1",
            "place": {"y": 10, "z": None, "x": 11},
            "points": [{"why": 1.5, "ex": 1}, None],
            "named": [("a", {"new": None, "x": 5}), ("b", None)],
            "price": Decimal("1.25"),
            "number": 1,
            "added": None,
        },
        {"id": "n2", "place": None, "points": [], "named": [], "price": None, "number": 2, "added": None},
        {
            "id": None,
            "place": {"y": None, "z": None, "x": 31},
            "points": None,
            "named": None,
            "price": Decimal("-3.00"),
            "number": 3,
            "added": None,
        },
    ]


def test_two_struct_fields_of_one_type_with_swapped_names_are_distinguished(old: DataFile) -> None:
    now = Schema(NestedField(2, "at", StructType(NestedField(4, "x", IntegerType()), NestedField(3, "y", IntegerType()))))
    assert read([old], now).to_pylist()[0] == {"at": {"x": 11, "y": 10}}


def test_a_struct_with_only_new_fields_keeps_its_nulls(old: DataFile) -> None:
    now = Schema(NestedField(2, "at", StructType(NestedField(30, "new", LongType()))))
    assert read([old], now).to_pylist() == [{"at": {"new": None}}, {"at": None}, {"at": {"new": None}}]


def test_a_projection_returns_its_columns_in_its_order(old: DataFile) -> None:
    columns = Schema(OLD.find_field("note"), NestedField(2, "at", StructType(NestedField(4, "y", IntegerType()))), OLD.find_field("id"))
    assert read([old], OLD, columns=columns, where="price > 0").to_pylist() == [{"note": "n1", "at": {"y": 11}, "id": 1}]


def test_a_filter_may_use_a_field_of_a_struct_that_is_projected_in_part(old: DataFile) -> None:
    columns = Schema(NestedField(2, "at", StructType(NestedField(3, "x", IntegerType()))))
    assert read([old], OLD, columns=columns, where="at.y = 31").to_pylist() == [{"at": {"x": None}}]


def test_a_read_without_columns_counts_the_rows(old: DataFile) -> None:
    def rows(**arguments: Any) -> int:
        found = read_task(IO, task_of(old), schema=OLD, projection=Schema(), specs={0: UNPARTITIONED_SPEC}, **arguments)
        return sum(batch.num_rows for batch in found)

    assert rows() == 3
    assert rows(row_filter=bind(parse_filter("id >= 2"), OLD)) == 2


def test_a_column_the_file_lacks_has_the_value_of_its_identity_partition(tmp_path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", DateType()), NestedField(3, "key", UUIDType(), required=True))
    spec = partition_spec_from_text(schema, ["day", "key"])
    (file,) = write(target(tmp_path, Schema(NestedField(1, "id", LongType()))), [{"id": 1}, {"id": 2}])
    key = bytes(range(16))
    hive = replace(file, partition=(15706, uuid.UUID(bytes=key)), spec_id=spec.spec_id)
    rows = read([hive], schema, specs=[spec]).to_pylist()
    assert rows == [{"id": number, "day": dt.date(2013, 1, 1), "key": key} for number in (1, 2)]
    assert read([hive], schema, specs=[spec], where="day < '2013-01-01'").num_rows == 0


def test_a_stored_column_is_used_instead_of_the_partition_value(tmp_path) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    spec = partition_spec_from_text(schema, ["id"])
    (file,) = write(target(tmp_path, schema, spec), [{"id": 1}])
    assert read([replace(file, partition=(7,))], schema, specs=[spec]).to_pylist() == [{"id": 1}]


def test_the_error_for_a_missing_required_column_names_column_and_file(old: DataFile) -> None:
    with pytest.raises(DataFileFormatError, match=r"required column 'must' \(field id 40\)") as raised:
        read([old], Schema(NestedField(40, "must", LongType(), required=True)))
    assert raised.value.path == old.file_path


@pytest.mark.parametrize(
    ("field_id", "kind"),
    [(14, LongType()), (1, StringType()), (2, LongType()), (1, DoubleType()), (13, DecimalType(9, 3)), (13, DecimalType(7, 2)), (5, AT)],
)
def test_a_type_that_cannot_be_promoted_is_refused(old: DataFile, field_id: int, kind: IcebergType) -> None:
    if isinstance(kind, StructType):
        kind = StructType(NestedField(60, "x", LongType()))
    with pytest.raises(DataFileFormatError, match=r"cannot be read as"):
        read([old], Schema(NestedField(field_id, "c", kind)))


# ---- files of other writers ----


def _foreign(folder: Path, table: Any, **options: Any) -> DataFile:
    path = f"{folder}/foreign.parquet"
    pq.write_table(table, path, **options)
    size = Path(path).stat().st_size
    return DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=table.num_rows, file_size_in_bytes=size, partition=())


def _with_ids(table: Any) -> Any:
    fields = [field.with_metadata({"PARQUET:field_id": str(number)}) for number, field in enumerate(table.schema, 1)]
    return table.cast(pa.schema(fields))


def test_int96_timestamps_are_microseconds_in_every_year(tmp_path) -> None:
    moments = [dt.datetime(1, 1, 2), dt.datetime(2024, 5, 6, 7, 8, 9, 123456), dt.datetime(9999, 12, 30), None]
    table = _with_ids(pa.table({"ts": pa.array(moments, pa.timestamp("us"))}))
    file = _foreign(tmp_path, table, use_deprecated_int96_timestamps=True)
    assert str(pq.ParquetFile(file.file_path).schema.column(0).physical_type) == "INT96"
    aware = [moment and moment.replace(tzinfo=dt.UTC) for moment in moments]
    schema = Schema(NestedField(1, "ts", TimestamptzType()))
    assert read([file], schema)["ts"].to_pylist() == aware
    assert read([file], schema, where="ts > '2024-01-01'")["ts"].to_pylist() == aware[1:3]


def test_other_widths_and_encodings_are_read_as_the_type_of_the_table(tmp_path) -> None:
    table = pa.table(
        {
            "a": pa.array([1, None], pa.int8()),
            "b": pa.array(["x", "y"]).dictionary_encode(),
            "c": pa.array(["x", None], pa.large_string()),
            "d": pa.array([1000, 2000], pa.timestamp("ms")),
            "e": pa.array([b"x", None], pa.binary()),
            "f": pa.array([[1], None], pa.large_list(pa.int64())),
        }
    )
    table = _with_ids(table)
    listed = pa.field(
        "f", pa.large_list(pa.field("element", pa.int64(), metadata={"PARQUET:field_id": "7"})), metadata={"PARQUET:field_id": "6"}
    )
    table = table.set_column(5, listed, table["f"].cast(listed.type))
    schema = Schema(
        NestedField(1, "a", LongType()),
        NestedField(2, "b", StringType()),
        NestedField(3, "c", StringType()),
        NestedField(4, "d", TimestampType()),
        NestedField(5, "e", StringType()),
        NestedField(6, "f", ListType(element_id=7, element=LongType())),
    )
    assert read([_foreign(tmp_path, table)], schema).to_pylist() == [
        {"a": 1, "b": "x", "c": "x", "d": dt.datetime(1970, 1, 1, 0, 0, 1), "e": "x", "f": [1]},
        {"a": None, "b": "y", "c": None, "d": dt.datetime(1970, 1, 1, 0, 0, 2), "e": None, "f": None},
    ]


def test_the_error_for_a_file_without_field_ids_names_it(tmp_path) -> None:
    file = _foreign(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(DataFileFormatError, match="no field ids") as raised:
        read([file], Schema(NestedField(1, "id", LongType())))
    assert raised.value.path == file.file_path


def test_identity_partition_columns_of_a_file_without_field_ids_are_read(tmp_path) -> None:
    schema = Schema(NestedField(1, "day", LongType()))
    spec = partition_spec_from_text(schema, ["day"])
    file = replace(_foreign(tmp_path, pa.table({"id": [1, 2]})), partition=(9,))
    assert read([file], schema, specs=[spec])["day"].to_pylist() == [9, 9]


def test_the_error_for_a_format_without_rows_names_it(old: DataFile) -> None:
    with pytest.raises(UnsupportedFeatureError, match="PUFFIN") as raised:
        read([replace(old, file_format=FileFormat.PUFFIN)], OLD)
    assert raised.value.path == old.file_path


def test_the_error_for_an_encrypted_file_names_it(old: DataFile) -> None:
    with pytest.raises(UnsupportedFeatureError, match="encrypted") as raised:
        read([replace(old, key_metadata=b"key")], OLD)
    assert raised.value.path == old.file_path


def test_a_name_mapping_supplies_only_the_field_ids_that_a_file_lacks(tmp_path) -> None:
    schema = Schema(
        NestedField(7, "number", LongType()),
        NestedField(1, "at", StructType(NestedField(2, "x", LongType()), NestedField(9, "new", StringType()))),
        NestedField(3, "tags", ListType(element_id=4, element=StructType(NestedField(5, "t", StringType())))),
        NestedField(10, "kinds", MapType(key_id=11, key_type=StringType(), value_id=12, value_type=LongType())),
    )
    mapping = mapping_from_json(
        """[{"field-id": 7, "names": ["id", "number"]}, {"field-id": 1, "names": ["at"], "fields": [{"field-id": 2, "names": ["y"]}]},
        {"field-id": 3, "names": ["tags"], "fields": [{"field-id": 4, "names": ["element"], "fields": [{"field-id": 5, "names": ["a.b"]}]}]},
        {"field-id": 10, "names": ["kinds"], "fields": [{"field-id": 11, "names": ["key"]}, {"field-id": 12, "names": ["value"]}]}]"""
    )
    rows = [{"id": 1, "at": {"x": 5, "y": 6}, "tags": [{"a.b": "t"}], "kinds": [("k", 3)], "other": 0}]
    table = pa.Table.from_pylist(
        rows,
        schema=pa.schema(
            [
                ("id", pa.int32()),
                ("at", pa.struct([("x", pa.int64()), ("y", pa.int64())])),
                ("tags", pa.list_(pa.struct([("a.b", pa.string())]))),
                ("kinds", pa.map_(pa.string(), pa.int64())),
                ("other", pa.int64()),
            ]
        ),
    )
    found = read([_foreign(tmp_path, table)], schema, name_mapping=mapping).to_pylist()
    assert found == [{"number": 1, "at": {"x": 6, "new": None}, "tags": [{"t": "t"}], "kinds": [("k", 3)]}]
    ids = [pa.field("id", pa.int32(), metadata={FIELD_ID_KEY: "20"}), *list(table.schema)[1:]]
    with_an_id = _foreign(tmp_path, table.cast(pa.schema(ids)))
    assert read([with_an_id], schema, name_mapping=mapping).to_pylist() == [{"number": None, "at": None, "tags": None, "kinds": None}]


def test_the_error_names_a_missing_file(old: DataFile) -> None:
    Path(old.file_path).unlink()
    with pytest.raises(NoSuchFileError) as raised:
        read([old], OLD)
    assert raised.value.path == old.file_path


@settings(max_examples=examples(60))
@given(st.data())
def test_a_damaged_file_is_read_or_raises_an_error_that_names_it(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (file,) = write(target(folder, OLD), OLD_ROWS * 50)
        path = Path(file.file_path)
        content = bytearray(path.read_bytes())
        if data.draw(st.booleans()):
            content = content[: data.draw(st.integers(0, len(content) - 1))]
        else:
            content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(bytes(content))
        try:
            read([file], OLD)
        except (DataFileFormatError, UnsupportedFeatureError) as error:
            assert file.file_path in str(error)  # noqa: PT017 - not every damage can be seen


@pytest.mark.parametrize("left", [0, 3, 200])
def test_the_error_names_a_truncated_file(old: DataFile, left: int) -> None:
    path = Path(old.file_path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DataFileFormatError, match=r"not a complete, valid Parquet file"):
        read([old], OLD)


# ---- filters, row groups, limits ----

NUMBERS = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "d", DoubleType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "p", DecimalType(9, 2)),
    NestedField(5, "b", BinaryType()),
    NestedField(6, "t", TimestamptzType()),
    NestedField(7, "in", StructType(NestedField(8, "k", IntegerType()))),
)
_NUMBER_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-3, 3),
            "d": st.none() | st.sampled_from([-1.0, -0.0, 0.0, 2.5, float("nan"), float("inf")]),
            "s": st.none() | st.sampled_from(["", "a", "ab", "b", "ü"]),
            "p": st.none() | st.sampled_from([Decimal("-1.00"), Decimal("0.50")]),
            "b": st.none() | st.sampled_from([b"", b"\xff"]),
            "t": st.none() | st.sampled_from([dt.datetime(1969, 12, 31, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]),
            "in": st.none() | st.fixed_dictionaries({"k": st.none() | st.integers(0, 2)}),
        }
    ),
    min_size=1,
    max_size=12,
)
_TERMS = [
    "n = 1", "n != 1", "n IN (2, 3)", "n NOT IN (1, 2)", "n IS NULL", "n IS NOT NULL", "d > 1.0", "d <= 0.0", "d = 0.0", "isnan(d)", "d IS NOT NULL",
    "s LIKE 'a%'", "s NOT LIKE 'a%'", "s >= 'b'", "p < 0", "p = 0.50", "t < '2000-01-01'", "in.k = 1", "in IS NULL", "in.k IS NOT NULL",
]  # fmt: skip
# Several filters of one file, which takes longer to write than to read.
_FILTERS = st.lists(
    st.builds(
        lambda word, terms: word.join(terms), st.sampled_from([" AND ", " OR "]), st.lists(st.sampled_from(_TERMS), min_size=1, max_size=3)
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(_NUMBER_ROWS, _FILTERS)
def test_skipping_row_groups_never_loses_a_matching_row(rows: list[dict[str, Any]], filters: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # With one row in each row group the statistics are as narrow as possible.
        (file,) = write(target(folder, NUMBERS, write__parquet__row_group_size_bytes="1"), rows)
        whole = read([file], NUMBERS)
        for where in filters:
            expected = whole.filter(arrow_mask(bind(parse_filter(where), NUMBERS), whole))
            assert same(read([file], NUMBERS, where=where).to_pylist(), expected.to_pylist()), where


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(_NUMBER_ROWS, _FILTERS, st.integers(1, 3))
def test_leaving_out_batches_without_a_row_that_passes_never_loses_a_matching_row(
    rows: list[dict[str, Any]], filters: list[str], batch_rows: int
) -> None:
    positions = Schema(*NUMBERS.fields, POS)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(parquet_rows, "BATCH_ROWS", batch_rows):
        (file,) = write(target(folder, NUMBERS, write__parquet__row_group_size_bytes="300"), rows * 2)
        whole = read([file], NUMBERS, columns=positions)
        for where in filters:
            expected = whole.filter(arrow_mask(bind(parse_filter(where), NUMBERS), whole))
            assert same(read([file], NUMBERS, where=where, columns=positions).to_pylist(), expected.to_pylist()), where


@pytest.mark.parametrize(("where", "most_rows"), [("n = 5", 30), ("n = 95", 100), ("n = 5 OR n = 95", 100), ("n = 5 AND noise IS NULL", 0)])
def test_other_columns_are_read_up_to_the_last_row_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, most_rows: int
) -> None:
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS", 10)
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "noise", StringType()), NestedField(3, "more", StringType()))
    noise = [f"{number:0100}" for number in range(100)]
    (file,) = write(target(tmp_path, schema), pa.table({"n": pa.array(range(100)), "noise": noise, "more": noise}))
    read_rows: list[int] = []
    run = ParquetRows._run

    def counted(self: ParquetRows, *arguments: Any) -> Iterator[StoredBatch]:
        for batch in run(self, *arguments):
            if "more" in batch.rows.schema.names:
                read_rows.append(batch.rows.num_rows)
            yield batch

    monkeypatch.setattr(ParquetRows, "_run", counted)
    assert read([file], schema, where=where)["n"].to_pylist() == [number for number in (5, 95) if f"n = {number}" in where and most_rows]
    assert sum(read_rows) <= most_rows
    read_rows.clear()
    read([file], schema, where="n >= 0")
    assert sum(read_rows) == 100


@pytest.mark.parametrize("term", _TERMS)
def test_each_predicate_finds_its_rows_in_row_groups_of_one_row(tmp_path, term: str) -> None:
    moment = dt.datetime(1969, 12, 31, tzinfo=dt.UTC)
    rows = [
        dict.fromkeys(NUMBERS.names),
        {"n": 1, "d": float("nan"), "s": "ab", "p": Decimal("-1.00"), "b": b"", "t": moment, "in": {"k": 1}},
        {"n": 2, "d": -0.0, "s": "b", "p": Decimal("0.50"), "b": b"", "t": moment.replace(year=2024), "in": {"k": None}},
        {"n": 3, "d": 2.5, "s": "", "p": None, "b": b"", "t": None, "in": None},
    ]
    (file,) = write(target(tmp_path, NUMBERS, write__parquet__row_group_size_bytes="1"), rows)
    assert pq.ParquetFile(file.file_path).num_row_groups == 4
    whole = read([file], NUMBERS)
    expected = whole.filter(arrow_mask(bind(parse_filter(term), NUMBERS), whole))
    assert expected.num_rows in (1, 2, 3)
    assert same(read([file], NUMBERS, where=term).to_pylist(), expected.to_pylist())


def test_slices_of_nested_columns_are_converted_without_the_rows_outside_of_them() -> None:
    fields = [pa.field("x", pa.int32(), metadata={FIELD_ID_KEY: "7"}), pa.field("y", pa.float32(), metadata={FIELD_ID_KEY: "8"})]
    kind = ListType(element_id=6, element=StructType(NestedField(7, "ex", LongType())), element_required=False)
    stored = pa.field("l", pa.list_(pa.field("element", pa.struct(fields), metadata={FIELD_ID_KEY: "6"})))
    lists = pa.array([[{"x": 1, "y": 0.0}], None, [], [{"x": 2, "y": 0.0}, None], [{"x": 3, "y": 0.0}]], stored.type)
    mapped = MapType(key_id=2, key_type=StringType(), value_id=3, value_type=LongType())
    pairs = [[("a", 1)], None, [], [("b", 2), ("c", None)], [("d", 4)]]
    maps = pa.array(pairs, pa.map_(pa.string(), pa.field("value", pa.int32(), metadata={FIELD_ID_KEY: "3"})))
    for start in range(5):
        projected = Projector("f", {}).array(lists.slice(start, 2), stored, NestedField(5, "l", kind), type_to_arrow(kind))
        projected.validate(full=True)
        assert projected.to_pylist() == [
            [[{"ex": 1}], None, [], [{"ex": 2}, None], [{"ex": 3}]][i] for i in range(start, min(5, start + 2))
        ]
        projected = Projector("f", {}).array(
            maps.slice(start, 2), pa.field("m", maps.type), NestedField(1, "m", mapped), type_to_arrow(mapped)
        )
        projected.validate(full=True)
        assert projected.to_pylist() == pairs[start : start + 2]


class _CountingIO(LocalFileIO):
    """A local file IO that counts the bytes read through `open_input`."""

    seen = 0

    def open_input(self, location: str) -> Any:
        return pa.PythonFile(_Counting(open(location, "rb")), mode="r")


class _Counting:
    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        _CountingIO.seen += len(content)
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _read_bytes(file: DataFile, **arguments: Any) -> tuple[int, int]:
    _CountingIO.seen = 0
    batches: Iterator[Any] = read_task(_CountingIO(), task_of(file), specs={0: UNPARTITIONED_SPEC}, **arguments)
    rows = sum(batch.num_rows for batch in itertools.islice(batches, 2))
    return rows, _CountingIO.seen


def test_skipped_row_groups_and_unprojected_columns_are_not_read(tmp_path) -> None:
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "noise", BinaryType()))
    rows = pa.table(
        {"n": pa.array(range(1000)), "noise": pa.array([number.to_bytes(2, "big") * 500 + bytes(range(256)) for number in range(1000)])}
    )
    properties = {"write__parquet__row_group_size_bytes": "100000", "write__parquet__compression_codec": "uncompressed"}
    (file,) = write(target(tmp_path, schema, **properties), rows)
    everything = bind(parse_filter("TRUE"), schema)
    bound_filter = bind(parse_filter("n = 500"), schema)
    only_n = Schema(schema.find_field("n"))
    assert _read_bytes(file, schema=schema, projection=schema, row_filter=bound_filter)[0] == 1
    assert _read_bytes(file, schema=schema, projection=schema, row_filter=bound_filter)[1] < file.file_size_in_bytes / 5
    assert _read_bytes(file, schema=schema, projection=only_n, row_filter=everything)[1] < file.file_size_in_bytes / 5


def test_a_filter_that_is_always_false_opens_no_file(old: DataFile) -> None:
    Path(old.file_path).unlink()
    assert list(read_task(IO, task_of(old, AlwaysFalse()), schema=OLD, projection=OLD, specs={0: UNPARTITIONED_SPEC})) == []


def test_each_row_is_in_exactly_one_split_of_a_file(tmp_path) -> None:
    schema = Schema(NestedField(1, "n", LongType()))
    (file,) = write(target(tmp_path, schema, write__parquet__row_group_size_bytes="4000"), pa.table({"n": pa.array(range(5000))}))
    edges = [0, 1000, 1001, 20_000, file.file_size_in_bytes]
    found: list[int] = []
    for start, end in itertools.pairwise(edges):
        task = replace(task_of(file), start=start, length=end - start)
        found += [n for b in read_task(IO, task, schema=schema, projection=schema, specs={0: PartitionSpec()}) for n in b["n"].to_pylist()]
    assert found == list(range(5000))
