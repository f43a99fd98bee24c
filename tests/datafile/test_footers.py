"""Footers of files with many sets of columns, read one after another by one reader: each result equals that of a new reader."""

import io
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.security.hostile_footers import CONTRADICTIONS, changed, divided, sound_file, with_footer

from icefloe import IntegerType, LongType, NestedField, Schema, StringType
from icefloe.datafile import foreign_files
from icefloe.datafile.foreign_files import FooterReader, FooterRequest
from icefloe.datafile.parquet.parquet_footer import CheckedFooter, open_footer
from icefloe.datafile.parquet.thrift import ThriftStruct, parse_struct
from icefloe.errors import DataFileFormatError, SchemaMismatchError, UnsupportedFeatureError
from icefloe.io.local_file_io import LocalFileIO
from icefloe.spec.schema.name_mapping import mapping_for

SCHEMA = Schema(
    NestedField(field_id=1, name="id", required=True, field_type=LongType()),
    NestedField(field_id=2, name="name", required=False, field_type=StringType()),
    NestedField(field_id=3, name="count", required=False, field_type=IntegerType()),
)
IDS = {"id": 1, "name": 2, "count": 3}
VALUES: dict[str, list[Any]] = {"id": [3, 1, 2], "name": ["b", None, "a"], "count": [None, 7, 9]}
TYPES = {"id": pa.int64(), "name": pa.string(), "count": pa.int32()}


def reader() -> FooterReader:
    request = FooterRequest(schema=SCHEMA, properties={}, name_mapping=mapping_for(SCHEMA), io=LocalFileIO())
    return FooterReader(request, extremes_of=frozenset(IDS.values()))


def put(path: Path, names: tuple[str, ...], ids: dict[str, int] | None = None, **values: list[Any]) -> str:
    fields = [pa.field(name, TYPES[name], metadata={"PARQUET:field_id": str(ids[name])} if ids else None) for name in names]
    columns = [pa.array((VALUES | values)[name], TYPES[name]) for name in names]
    pq.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), path, row_group_size=2)
    return str(path)


@pytest.mark.parametrize("kept", [1, 3, 99])
def test_a_footer_is_read_alike_whatever_was_read_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(foreign_files, "KEPT_LAYOUTS", kept)
    locations = [
        put(tmp_path / f"{place}-{'own' if ids else 'none'}.parquet", names, ids)
        for place, names in enumerate(permutations(IDS))
        for ids in (None, IDS)
    ]
    shared = reader()
    for location in (*locations, *reversed(locations)):
        footer = shared.read(location)
        assert footer == reader().read(location)
        assert footer.has_ids == location.endswith("own.parquet")
        assert footer.metrics is not None
        assert footer.metrics.null_value_counts == {1: 0, 2: 1, 3: 1}
        assert footer.metrics.upper_bounds == {1: b"\x03" + bytes(7), 2: b"b", 3: b"\x09" + bytes(3)}
        name = footer.extremes[2]
        assert (name.values, name.nulls, name.rows, name.exact) == ((b"a", b"b"), 1, 3, True)


def test_equal_names_with_different_field_ids_are_different_columns(tmp_path: Path) -> None:
    straight = put(tmp_path / "straight.parquet", ("id", "name"), IDS)
    longs = {"id": pa.int64(), "name": pa.int64()}
    values = [pa.array([1, 2]), pa.array([5, 6])]
    shared, found = reader(), []
    for ids in ({"id": 1, "name": 7}, {"id": 7, "name": 1}):
        schema = pa.schema([pa.field(name, kind, metadata={"PARQUET:field_id": str(ids[name])}) for name, kind in longs.items()])
        pq.write_table(pa.Table.from_arrays(values, schema=schema), tmp_path / "other.parquet", store_schema=False)
        found.append(shared.read(str(tmp_path / "other.parquet")))
    assert [one.extremes[1].values for one in found] == [(1, 2), (5, 6)]
    assert shared.read(straight).extremes[2].values == (b"a", b"b")


def test_a_file_with_nulls_in_a_required_column_is_refused_after_one_without(tmp_path: Path) -> None:
    sound, unsound = put(tmp_path / "1.parquet", tuple(IDS)), put(tmp_path / "2.parquet", tuple(IDS), id=[1, 2, None])
    untold = str(tmp_path / "3.parquet")
    pq.write_table(pq.read_table(sound), untold, write_statistics=False)
    shared = reader()
    assert shared.read(sound).records == 3
    for location, what in ((unsound, "is required, and the file has 1 nulls in it"), (untold, "its footer has no count of nulls")):
        with pytest.raises(SchemaMismatchError, match=what) as refused:
            shared.read(location)
        assert [problem.where for problem in refused.value.problems] == ["id"]
        assert refused.value.path == location
    assert shared.read(sound).records == 3


class CountedReads:
    """A file whose reads are counted, each of which is a request of an object store."""

    def __init__(self, location: str, reads: list[int]) -> None:
        self._file, self._reads = pa.OSFile(location), reads

    def __enter__(self) -> "CountedReads":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int | None = None) -> bytes:
        data = bytes(self._file.read(size))
        self._reads.append(len(data))
        return data


def test_a_small_file_is_read_by_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = put(tmp_path / "a.parquet", ("id", "name"))
    reads: list[int] = []
    monkeypatch.setattr(LocalFileIO, "open_input", lambda _, location: CountedReads(location, reads))
    footer = reader().read(location)
    assert (footer.records, reads) == (3, [footer.size])


@pytest.mark.parametrize("name", [name for name in CONTRADICTIONS if name not in ("nothing", "an encrypted column")])
def test_a_footer_is_checked_also_after_one_with_the_same_columns(tmp_path: Path, name: str) -> None:
    (tmp_path / "sound.parquet").write_bytes(sound_file())
    (tmp_path / "bad.parquet").write_bytes(changed(CONTRADICTIONS[name][0]))
    schema = Schema(
        NestedField(field_id=1, name="n", required=False, field_type=LongType()),
        NestedField(field_id=2, name="s", required=False, field_type=StringType()),
    )
    shared = FooterReader(FooterRequest(schema=schema, properties={}, name_mapping=mapping_for(schema), io=LocalFileIO()))
    shared.read(str(tmp_path / "sound.parquet"))
    with pytest.raises(DataFileFormatError, match="no valid footer"):
        shared.read(str(tmp_path / "bad.parquet"))


def file_of(rows: dict[str, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(rows), file, row_group_size=3, store_decimal_as_integer=True, **options)
    return file.getvalue()


def rows_of(seed: int) -> dict[str, Any]:
    numbers = [None if (seed + row) % 4 == 0 else seed * 1000 + row for row in range(5)]
    return {
        "long": pa.array(numbers, pa.int64()),
        "text": [None if number is None else str(number) * (1 + seed) for number in numbers],
        "flag": [None if number is None else number % 2 == 0 for number in numbers],
        "half": [None if number is None else number / 2 for number in numbers],
        "fixed": pa.array([None if number is None else number.to_bytes(5, "big") for number in numbers], pa.binary(5)),
        "list": [[number] for number in numbers],
        "price": pa.array(numbers, pa.decimal128(20, 0)),
    }


def outcome(footer: CheckedFooter, like: CheckedFooter | None) -> tuple[type | None, str]:
    """Return the error of checking a footer; none, and no text, where it is sound."""
    try:
        footer.check_all(like=like)
    except (pa.ArrowException, UnsupportedFeatureError) as error:
        return type(error), str(error)
    return None, ""


def checked(data: bytes) -> CheckedFooter:
    footer = open_footer(pa.BufferReader(data), "file")
    footer.check_all()
    return footer


FILES = [file_of(rows_of(seed)) for seed in range(4)]


@settings(max_examples=examples(400))
@given(
    st.sampled_from(range(4)),
    st.sampled_from(range(4)),
    st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 2), st.binary(max_size=3)), max_size=3),
)
def test_a_damaged_footer_has_the_same_error_after_a_sound_one(first: int, second: int, changes: list[tuple[int, int, bytes]]) -> None:
    head, footer = divided(FILES[second])
    for number, removed, inserted in changes:
        place = number % len(footer)
        footer = footer[:place] + inserted + footer[place + removed :]
    data = with_footer(head, footer)
    like = checked(FILES[first])
    try:
        alone, after = (open_footer(pa.BufferReader(data), "file") for _ in range(2))
        assume(after.metadata.schema.equals(like.metadata.schema))
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return
    assert outcome(after, like) == outcome(alone, None)


def test_chunks_of_the_same_fields_are_recognized_without_reading_their_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    like = checked(FILES[0])
    read: list[int] = []
    check = CheckedFooter._check
    monkeypatch.setattr(CheckedFooter, "_check", lambda footer, group, leaf, chunk: (read.append(leaf), check(footer, group, leaf, chunk)))
    for file in FILES[1:]:
        open_footer(pa.BufferReader(file), "file").check_all(like=like)
    assert read == []
    long_texts = rows_of(1) | {"text": ["x" * 65] * 5}
    open_footer(pa.BufferReader(file_of(long_texts)), "file").check_all(like=like)
    assert read == [1, 1]  # one in each row group


@pytest.mark.parametrize("bits", [63, 64, 65, 70])
def test_a_skipped_number_has_at_most_64_bits(bits: int) -> None:
    number = 1 << bits - 1
    groups = [number >> shift & 0x7F | 0x80 for shift in range(0, bits, 7)]
    groups[-1] &= 0x7F
    # A field 9 of 64 bits, which no reader looks at, and the end of the struct.
    data = bytes([0x96, *groups, 0])
    definition = ThriftStruct("Any")
    if bits <= 64:
        assert parse_struct(data, 0, definition) == ({}, len(data))
    else:
        with pytest.raises(ValueError, match="64 bits"):
            parse_struct(data, 0, definition)
