"""Variants that are shredded: the columns that are chosen, the values that they store, whole files, and damaged variants."""

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe import DoubleType, FormatError, LongType, NestedField, Schema, SqlCatalog, VariantType, variant_from_python, variant_to_python
from icefloe.datafile.variant_columns import infer_typed_value, shredded_type
from icefloe.datafile.variant_shredder import shred_variants
from icefloe.datafile.variant_shredding import unshred
from icefloe.spec.schema.arrow_extensions import VARIANT_STORAGE

NOTHING = object()  # in the place of a value: no variant


def variants(*values: Any) -> Any:
    encoded = (None if value is NOTHING else variant_from_python(value) for value in values)
    return pa.array([None if part is None else {"metadata": part[0], "value": part[1]} for part in encoded], VARIANT_STORAGE)


def group(typed: Any) -> Any:
    return pa.struct([pa.field("value", pa.binary()), pa.field("typed_value", typed)])


def object_type(**fields: Any) -> Any:
    return pa.struct([pa.field(name, group(typed), nullable=False) for name, typed in fields.items()])


def list_type(element: Any) -> Any:
    return pa.list_(pa.field("element", group(element), nullable=False))


@pytest.mark.parametrize(
    ("values", "typed"),
    [
        ([1, 2, "x"], None),  # of several types
        ([1, Decimal("1.5")], None),
        ([1, 70_000, 300], pa.int32()),
        ([{"a": 1, "b": 1}, {"a": "x", "b": 300}], object_type(b=pa.int16())),
        ([{"a": [1]}, {"a": {"b": 1}}, {"c": True}], object_type(c=pa.bool_())),
        ([Decimal("1.25"), Decimal("1000000.5")], pa.decimal128(9, 2)),
        ([Decimal(10**37), Decimal("0.00001")], pa.decimal128(38, 0)),
        ([1.5, None, NOTHING], pa.float64()),
        ([True, False], pa.bool_()),
        ([dt.date(2020, 1, 1)], pa.date32()),
        ([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
        ([dt.datetime(2020, 1, 1)], pa.timestamp("us")),
        ([b"x"], pa.binary()),
        ([[1, 2], [300], []], list_type(pa.int16())),
        ([{"b": "x", "a": 1}, {"a": 2}], object_type(a=pa.int8(), b=pa.string())),
        ([{"a": {"b": [True]}}], object_type(a=object_type(b=list_type(pa.bool_())))),
        (
            [{"a": 1, "t": dt.time(1), "u": UUID(int=1), "n": np.datetime64(1, "ns")}],
            object_type(a=pa.int8()),
        ),  # Spark's variants lack these types
        ([*({"a": i} for i in range(10)), {"rare": 1}], object_type(a=pa.int8())),
        ([*({"a": i} for i in range(9)), {"rare": 1}], object_type(a=pa.int8(), rare=pa.int8())),
        ([{f"f{i:03}": 1 for i in range(310)}], object_type(**{f"f{i:03}": pa.int8() for i in range(300)})),
        ([{}, []], None),
        ([dt.time(1)], None),
        ([None, NOTHING], None),
    ],
)
def test_columns_are_chosen_by_type_and_frequency(values: list[Any], typed: Any) -> None:
    assert infer_typed_value(variants(*values)) == typed


def test_a_column_stores_values_of_its_own_type_and_all_others_stay_encoded() -> None:
    typed = object_type(a=pa.int8(), d=pa.decimal128(9, 2), l=list_type(pa.string()))
    values = [{"a": 1, "d": Decimal("1.25"), "l": ["x", 2]}, {"a": 300, "d": Decimal("1.5"), "z": None}, {}, 5, None, NOTHING]
    found = shred_variants(pa.chunked_array([variants(*values)]), typed).to_pylist()

    def encoded(value: Any) -> bytes:
        return variant_from_python(value)[1]

    missing = {"value": None, "typed_value": None}
    assert [None if row is None else (row["value"], row["typed_value"]) for row in found] == [
        (
            None,
            {
                "a": {"value": None, "typed_value": 1},
                "d": {"value": None, "typed_value": Decimal("1.25")},
                "l": {"value": None, "typed_value": [{"value": None, "typed_value": "x"}, {"value": encoded(2), "typed_value": None}]},
            },
        ),
        (
            bytes([2, 1, 2, 0, 1, 0]),  # an object of the field with id 2, which is null
            {"a": {"value": encoded(300), "typed_value": None}, "d": {"value": encoded(Decimal("1.5")), "typed_value": None}, "l": missing},
        ),
        (None, {"a": missing, "d": missing, "l": missing}),
        (encoded(5), None),
        (encoded(None), None),
        None,
    ]


def any_value(chosen: random.Random, depth: int = 0) -> Any:
    leaves = (
        *(None, chosen.random() < 0.5, chosen.randrange(-200, 200), chosen.randrange(-(2**40), 2**40), chosen.random()),
        *(Decimal(chosen.randrange(-(10**6), 10**6)).scaleb(-chosen.randrange(3)), Decimal(chosen.randrange(-(10**25), 10**25)).scaleb(-2)),
        *(
            "x" * chosen.randrange(100),
            b"x",
            dt.date(1969, 1, 1),
            dt.datetime(1960, 1, 1, tzinfo=dt.UTC),
            dt.datetime(2020, 1, 2),
            UUID(int=7),
        ),
    )
    kind = chosen.randrange(len(leaves) + 3 if depth < 4 else len(leaves))
    if kind < len(leaves):
        return leaves[kind]
    if kind == len(leaves):
        return [any_value(chosen, depth + 1) for _ in range(chosen.randrange(4))]
    return {chosen.choice("abcdeé"): any_value(chosen, depth + 1) for _ in range(chosen.randrange(5))}


def test_any_variants_are_the_same_bytes_after_they_were_shredded_and_reassembled() -> None:
    chosen, count = random.Random(3), 0
    for _ in range(400):
        values = [NOTHING if chosen.random() < 0.1 else any_value(chosen, chosen.randrange(3)) for _ in range(20)]
        rows = variants(*values).slice(chosen.randrange(5))
        typed = infer_typed_value(rows.slice(0, chosen.randrange(1, 4)))  # later values have other types
        if typed is not None:
            found = shred_variants(pa.chunked_array([rows]), typed)
            found.validate(full=True)
            assert found.type == shredded_type(typed)
            assert unshred(found.combine_chunks()).to_pylist() == rows.to_pylist()
            count += 1
    assert count > 100


SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "v", VariantType()),
    NestedField(3, "amount", DoubleType()),
    NestedField(4, "w", VariantType()),
)


def rows_of(count: int) -> Any:
    values = [{"kind": f"k{i % 3}", "tags": ["a", i], "n": i} if i % 7 else NOTHING for i in range(count)]
    arrays = [
        pa.array(range(count), pa.int64()),
        variants(*values),
        pa.array([i / 2 for i in range(count)]),
        variants(*(i % 2 for i in range(count))),
    ]
    return pa.table(arrays, ["id", "v", "amount", "w"])


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.mark.parametrize("partition_spec", [(), ("bucket(2, id)",)], ids=["whole", "partitioned"])
def test_a_table_with_the_property_has_shredded_files_with_the_metrics_of_whole_ones(
    lake: SqlCatalog, partition_spec: tuple[str, ...]
) -> None:
    made = {}
    for shredded in ("true", "false"):
        properties = {"format-version": "3", "write.parquet.shred-variants": shredded}
        table = lake.create_table(f"db.{shredded}", SCHEMA, partition_spec=list(partition_spec), properties=properties)
        table.append(rows_of(30))
        made[shredded] = table.scan().to_arrow().sort_by("id"), table.inspect.files().to_pylist()
        for task in table.scan().plan_files():
            columns = pq.ParquetFile(task.file.file_path).schema
            assert ("v.typed_value.kind.typed_value" in [columns.column(i).path for i in range(len(columns))]) == (shredded == "true")
            assert "Variant" in str(columns)
    assert made["true"][0].equals(made["false"][0])
    assert made["true"][0].column("v").to_pylist() == rows_of(30).column("v").to_pylist()
    names = ("record_count", "null_value_counts", "value_counts", "lower_bounds", "upper_bounds")
    assert [[file[name] for name in names] for file in made["true"][1]] == [[file[name] for name in names] for file in made["false"][1]]


def test_the_columns_are_chosen_from_the_first_rows_of_a_file(lake: SqlCatalog) -> None:
    properties = {"format-version": "3", "write.parquet.shred-variants": "true", "write.parquet.variant-inference-buffer-size": "3"}
    table = lake.create_table("db.t", SCHEMA.select("id", "v"), properties=properties)
    table.append(pa.table([pa.array(range(9), pa.int64()), variants("a", "b", "c", 1, 2, 3, 4, 5, 6)], ["id", "v"]))
    (task,) = table.scan().plan_files()
    assert pq.ParquetFile(task.file.file_path).schema_arrow.field("v").type.field("typed_value").type == pa.string()
    found = table.scan().to_arrow().sort_by("id").column("v").to_pylist()
    assert [variant_to_python(row["metadata"], row["value"]) for row in found] == ["a", "b", "c", 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        (b"", pa.int8()),
        (b"\x0c", pa.int8()),  # an integer without its byte
        (b"\x10\x01", pa.int16()),
        (b"\xf1x", pa.string()),  # a text of 60 bytes that has one
        (b"\x05\xff", pa.string()),  # a text that is no UTF-8
        (b"\x40\xff\xff\xff\x7fx", pa.string()),
        (bytes([2, 1, 9, 0, 2, 0x0C, 5]), object_type(a=pa.int8())),  # the id of no name
        (bytes([2, 200, 0, 0]), object_type(a=pa.int8())),  # more fields than bytes
        (bytes([3, 1, 9, 10, 0x0C, 5]), list_type(pa.int8())),
        (bytes([3, 40, *([0] * 40), 6, 0x15, *b"abcde"]), list_type(pa.string())),  # elements that share bytes
        (bytes([0x54]), pa.int8()),  # a kind that does not exist
    ],
)
def test_damaged_variants_are_refused(value: bytes, typed: Any) -> None:
    metadata = variant_from_python({"a": 1})[0]
    rows = pa.chunked_array([pa.array([{"metadata": metadata, "value": value}], VARIANT_STORAGE)])
    with pytest.raises(FormatError):
        shred_variants(rows, typed)
