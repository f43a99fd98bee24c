"""Files of other writers: old forms of lists and maps, each physical form of a decimal, encrypted files, timestamps that ORC holds and Arrow does not."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from tests.datafile.tables import read, target, write

from icefloe.errors import SchemaMismatchError, UnsupportedFeatureError
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.schema.arrow_types import FIELD_ID_KEY
from icefloe.spec.schema.name_mapping import mapping_for
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DecimalType, ListType, LongType, MapType, NestedField, StringType, StructType, TimestampType

_NESTED = Schema(
    NestedField(1, "l", ListType(element_id=2, element=LongType(), element_required=False)),
    NestedField(3, "m", MapType(key_id=4, key_type=StringType(), value_id=5, value_type=LongType(), value_required=False)),
)
_ROWS = [{"l": [1, None], "m": [("k", 1)]}, {"l": None, "m": None}, {"l": [], "m": []}]


def _file(folder: Path, table: pa.Table, **options: Any) -> DataFile:
    path = folder / "foreign.parquet"
    pq.write_table(table, path, **options)
    return DataFile(
        file_path=str(path), file_format=FileFormat.PARQUET, record_count=table.num_rows, file_size_in_bytes=path.stat().st_size
    )


@pytest.mark.parametrize("compliant", [True, False])
@pytest.mark.parametrize("item", ["element", "item", "array", "bag"])
def test_lists_and_maps_are_recognised_by_their_structure_whatever_the_names_of_their_parts(
    tmp_path: Path, item: str, compliant: bool
) -> None:
    listed = pa.list_(pa.field(item, pa.int64()))
    mapped = pa.map_(pa.field("a_key", pa.string(), nullable=False), pa.field("a_value", pa.int64()))
    table = pa.table([pa.array([row[name] for row in _ROWS], kind) for name, kind in (("l", listed), ("m", mapped))], names=["l", "m"])
    file = _file(tmp_path, table, use_compliant_nested_type=compliant)
    assert read([file], _NESTED, name_mapping=mapping_for(_NESTED)).to_pylist() == _ROWS


@pytest.mark.parametrize(
    ("precision", "as_integer", "physical"), [(9, True, "INT32"), (18, True, "INT64"), (9, False, "FIXED_LEN_BYTE_ARRAY")]
)
def test_a_decimal_is_read_from_each_physical_form(tmp_path: Path, precision: int, as_integer: bool, physical: str) -> None:
    values = [Decimal("-1.25"), None, Decimal("7.00"), Decimal("-0.01")]
    stored = pa.field("d", pa.decimal128(precision, 2), metadata={FIELD_ID_KEY: "1"})
    file = _file(tmp_path, pa.table([pa.array(values, stored.type)], schema=pa.schema([stored])), store_decimal_as_integer=as_integer)
    assert pq.ParquetFile(file.file_path).schema.column(0).physical_type == physical
    schema = Schema(NestedField(1, "d", DecimalType(20, 2)))
    assert read([file], schema)["d"].to_pylist() == values
    assert read([file], schema, where="d < 0")["d"].to_pylist() == [values[0], values[3]]
    assert read([file], schema, where="d > 10").num_rows == 0


@pytest.mark.parametrize(
    ("precision", "physical", "width"),
    [(9, "INT32", 0), (18, "INT64", 0), (19, "FIXED_LEN_BYTE_ARRAY", 9), (38, "FIXED_LEN_BYTE_ARRAY", 16)],
)
def test_a_decimal_is_written_in_the_physical_form_for_its_precision(tmp_path: Path, precision: int, physical: str, width: int) -> None:
    schema = Schema(NestedField(1, "d", DecimalType(precision, 2)))
    (file,) = write(target(tmp_path, schema), [{"d": Decimal("1.25")}])
    column = pq.ParquetFile(file.file_path).schema.column(0)
    assert (column.physical_type, max(column.length, 0)) == (physical, width)


@pytest.mark.parametrize("form", list(FileFormat)[:3])
@pytest.mark.parametrize("magic", [b"AGS1", b"PARE"])
def test_a_file_with_the_magic_bytes_of_an_encrypted_file_is_refused_as_encrypted(tmp_path: Path, magic: bytes, form: FileFormat) -> None:
    (file,) = write(target(tmp_path, _NESTED), _ROWS)
    path = Path(file.file_path)
    path.write_bytes(magic + path.read_bytes()[4:-4] + magic)
    with pytest.raises(UnsupportedFeatureError, match="encrypted") as raised:
        read([replace(file, file_format=form)], _NESTED)
    assert raised.value.path == file.file_path


def test_a_timestamp_that_could_not_be_read_from_orc_is_not_written(tmp_path) -> None:
    schema = Schema(NestedField(1, "s", StructType(NestedField(2, "at", TimestampType()))))
    with pytest.raises(SchemaMismatchError, match="2262"):
        write(target(tmp_path, schema, write__format__default="orc"), [{"s": {"at": dt.datetime(9999, 1, 1)}}])
    assert list((tmp_path / "data").iterdir()) == []


def test_a_foreign_orc_timestamp_that_cannot_be_read_is_refused(tmp_path) -> None:
    schema = Schema(NestedField(1, "at", TimestampType()))
    (file,) = write(target(tmp_path, schema, write__format__default="orc"), [{"at": dt.datetime(2000, 1, 1)}])
    orc.write_table(pa.table({"at": pa.array([dt.datetime(9999, 1, 1)], pa.timestamp("us"))}), file.file_path)
    file = replace(file, file_size_in_bytes=Path(file.file_path).stat().st_size)
    with pytest.raises(UnsupportedFeatureError, match="2262"):
        read([file], schema, name_mapping=mapping_for(schema))
