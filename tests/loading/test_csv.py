"""CSV files: records by RFC 4180, the types of columns, and the lines that are no record."""

import csv
import datetime as dt
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.loading.conftest import Load, rows_of, types_of
from tests.repetitions import examples

from icefloe.errors import InvalidInputError, InvalidSchemaError
from icefloe.loading import csv_input, text_types
from icefloe.loading.csv_records import MAX_RECORD_BYTES, CsvDialect, read_records
from icefloe.loading.input_files import open_bytes
from icefloe.loading.reader_options import ReaderOptions
from icefloe.loading.text_types import TextTypes, nearest_type
from icefloe.spec.temporal_arrays import as_numbers


class Blocks:
    """Text that is read in blocks of some bytes."""

    def __init__(self, text: bytes, size: int) -> None:
        self._text, self._size = io.BytesIO(text), size

    def read(self) -> bytes:
        return self._text.read(self._size)


def split(text: bytes, size: int = 1 << 20, **options: str) -> tuple[list[tuple[int, bytes, int]], list[tuple[int, bytes, str]]]:
    records: list[tuple[int, bytes, int]] = []
    faults: list[tuple[int, bytes, str]] = []
    for block in read_records(Blocks(text, size), CsvDialect(ReaderOptions(**options))):  # type: ignore[arg-type]
        spans = zip(block.lines, block.starts, block.ends, block.widths, strict=True)
        records += [(int(line), block.data[start:end], int(width)) for line, start, end, width in spans]
        faults += [(fault.line, fault.text, fault.reason) for fault in block.faults]
    return records, faults


def test_quoted_values_have_separators_line_breaks_and_doubled_quotes(load: Load) -> None:
    Path("a.csv").write_bytes(b'id,name,"a ""b"""\r\n1,"x, y",1\r\n2,"two\r\nlines",2\r\n3,"a ""hi""",3\r\n4,5" disk,4\r\n5,"",5\r\n6,,6')
    rows = rows_of(load("a.csv"))
    assert [row["name"] for row in rows] == ["x, y", "two\r\nlines", 'a "hi"', '5" disk', "", None]
    assert [row['a "b"'] for row in rows] == [1, 2, 3, 4, 5, 6]


def test_every_text_that_the_standard_library_writes_is_read_in_blocks_of_any_size() -> None:
    chance = random.Random(1)
    for _ in range(examples(400)):
        values = [["".join(chance.choices('a,"\n\r x', k=chance.randint(0, 4))) for _ in range(3)] for _ in range(5)]
        written = io.StringIO(newline="")
        csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator=chance.choice(["\n", "\r\n", "\r"])).writerows(values)
        records, faults = split(written.getvalue().encode(), chance.randint(1, 50))
        assert faults == []
        assert [width for _, _, width in records] == [3] * 5


def test_any_text_is_split_equally_in_blocks_of_any_size() -> None:
    chance = random.Random(2)
    for _ in range(examples(600)):
        text = bytes(chance.choices(b'a,"\n\r,"x\n', k=chance.randint(0, 40)))
        whole = split(text)
        for size in (1, 2, 3, 5, 7, 11):
            assert split(text, size) == whole, (text, size)


def test_a_quote_that_is_not_closed_costs_one_line() -> None:
    records, faults = split(b'a,b\n1,"x\n2,y\n3,"z"\n4,"u"v\n5,w\n')
    assert [(line, text) for line, text, _ in records] == [(1, b"a,b"), (3, b"2,y"), (4, b'3,"z"'), (6, b"5,w")]
    assert [(line, text) for line, text, _ in faults] == [(2, b'1,"x'), (5, b'4,"u"v')]
    records, faults = split(b'a\n"x\n2\n')
    assert ([text for _, text, _ in records], faults) == ([b"a", b"2"], [(2, b'"x', "has a quote that is not closed")])


def test_a_line_without_end_is_one_bad_row_in_bounded_memory() -> None:
    records, faults = split(b"a,b\n" + b"x" * (MAX_RECORD_BYTES * 2) + b"\n1,2\n")
    assert [(line, text) for line, text, _ in records] == [(1, b"a,b"), (3, b"1,2")]
    assert [(line, len(text) <= 1024, reason) for line, text, reason in faults] == [(2, True, "is longer than 16 MiB")]


def test_an_escape_character_is_explicit(load: Load) -> None:
    Path("a.csv").write_text('id,name\n1,"a \\" b"\n2,c\\,d\n')
    assert [row["name"] for row in rows_of(load("a.csv", options={"escape": "\\"}))] == ['a " b', "c,d"]


def test_quotes_can_be_turned_off(load: Load) -> None:
    Path("a.csv").write_text('id,name\n1,"a\n2,b"\n')
    assert [row["name"] for row in rows_of(load("a.csv", options={"quote": ""}))] == ['"a', 'b"']


def test_separator_nulls_comments_and_encoding_are_options(load: Load) -> None:
    Path("a.csv").write_bytes("#top\nid;name;value\n1;é;NA\n# no\n2;ü;1.5\n".encode("latin-1"))
    result = load("a.csv", options={"sep": ";", "nullValue": "NA", "comment": "#", "encoding": "latin-1"})
    assert rows_of(result) == [{"id": 1, "name": "é", "value": None}, {"id": 2, "name": "ü", "value": 1.5}]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_other_forms_of_unicode_are_read(load: Load, encoding: str) -> None:
    Path("a.csv").write_bytes("id,name\n1,ä\n".encode(encoding))
    options = {} if encoding == "utf-8-sig" else {"encoding": encoding}
    assert rows_of(load("a.csv", options=options)) == [{"id": 1, "name": "ä"}]


def test_a_file_in_another_encoding_is_refused_with_the_option(load: Load) -> None:
    Path("a.csv").write_bytes("id\n1\n".encode("utf-16"))
    with pytest.raises(InvalidInputError, match="encoding=utf-16"):
        load("a.csv")


def test_types_are_inferred_from_all_rows(load: Load) -> None:
    head = "id,big,price,yes,day,at,point,mixed,code,text,empty\n"
    row = "{0},{0}12345678901234567890,{0}.5,true,2024-01-05,2024-01-05 10:00:00,2024-01-05T10:00:00Z,2024-01-05T10:00:00,00{0},12:30,\n"
    last = "9,1,2,false,2024-02-29,2024-01-05T10:00:00.123456789,2024-01-05T10:00:00+02:00,2024-01-05T10:00:00Z,1,x,\n"
    Path("a.csv").write_text(head + "".join(row.format(number) for number in range(1, 9)) + last)
    result = load("a.csv")
    assert types_of(result) == {
        "id": "long",
        "big": "decimal(38, 0)",
        "price": "double",
        "yes": "boolean",
        "day": "date",
        "at": "timestamp",
        "point": "timestamptz",
        "mixed": "timestamptz",
        "code": "string",
        "text": "string",
        "empty": "string",
    }
    row_9 = rows_of(result)[-1]
    assert row_9["at"] == dt.datetime(2024, 1, 5, 10, 0, 0, 123456)
    assert row_9["point"] == dt.datetime(2024, 1, 5, 8, tzinfo=dt.UTC)
    assert rows_of(result)[0]["code"] == "001"


def test_a_value_that_differs_in_a_late_row_decides_the_type(load: Load) -> None:
    Path("a.csv").write_text("id,v\n" + "".join(f"{number},{number}\n" for number in range(200_000)) + "200000,x\n")
    result = load("a.csv")
    assert types_of(result) == {"id": "long", "v": "string"}
    assert result.write.added_records == 200_001


def test_declared_columns_are_read_with_their_types(load: Load) -> None:
    Path("a.csv").write_text("u,name,id,d,t,b,x,n\n12345678-1234-1234-1234-123456789abc,a,+7,1.50,10:30:00,1,z,\n")
    result = load("a.csv", columns="id int NOT NULL, u uuid, d decimal(10,2), t time, b boolean, n date, name string COMMENT 'who'")
    assert types_of(result) == {
        "id": "int",
        "u": "uuid",
        "d": "decimal(10, 2)",
        "t": "time",
        "b": "boolean",
        "n": "date",
        "name": "string",
    }
    row = rows_of(result)[0]
    assert (row["id"], str(row["d"]), row["t"], row["b"], row["n"]) == (7, "1.50", dt.time(10, 30), True, None)
    assert result.table.schema().find_field("name").doc == "who"
    assert result.table.schema().find_field("id").required


@pytest.mark.parametrize("text", ["a bogus", "a", "", "a int) using x(", "a int; drop table t", "a int default 5"])
def test_columns_of_another_form_are_refused(load: Load, text: str, nothing_remains: Callable[[], None]) -> None:
    Path("a.csv").write_text("a\n1\n")
    with pytest.raises(InvalidSchemaError, match="--schema"):
        load("a.csv", columns=text)
    nothing_remains()


def test_a_declared_column_that_no_file_has_is_refused(load: Load) -> None:
    Path("a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidSchemaError, match="no column 'c'"):
        load("a.csv", columns="a int, c int")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,id\n1,2\n", "more than once"),
        ('"a b",c,"A B"\n1,2,3\n', "more than once"),
        ("id,,x\n1,2,3\n", "column 2 has no name"),
        ("id;name\n1;2\n", "its separator is not ','"),
        ("id\tname\n1\t2\n", "its separator is not ','"),
        ('"id,name\n', "header line"),
        ("id,name\n", "no rows"),
        ("\n\n", "no rows"),
    ],
)
def test_a_file_without_a_sound_header_and_rows_is_refused(
    load: Load, text: str, message: str, nothing_remains: Callable[[], None]
) -> None:
    Path("a.csv").write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        load("a.csv")
    nothing_remains()


def test_headers_must_be_the_same_in_every_file(load: Load) -> None:
    Path("a.csv").write_text("a,b\n1,2\n")
    Path("b.csv").write_text("b,a\n1,2\n")
    with pytest.raises(InvalidSchemaError, match="different columns") as refused:
        load(["a.csv", "b.csv"])
    assert [problem.what for problem in refused.value.problems] == ["a, b", "b, a"]


def test_files_with_different_columns_are_merged_by_name_on_request(load: Load) -> None:
    Path("a.csv").write_text("id,v\n1,2\n")
    Path("b.csv").write_text("w,id\nx,2\n")
    result = load(["a.csv", "b.csv"], add_columns=True)
    assert rows_of(result) == [{"id": 1, "v": 2, "w": None}, {"id": 2, "v": None, "w": "x"}]


def test_several_files_are_one_load(load: Load) -> None:
    for number in range(3):
        Path(f"{number}.csv").write_text(f"id,v\n{number},{number}.5\n")
    result = load(["0.csv", "1.csv", "2.csv"])
    assert [row["v"] for row in rows_of(result)] == [0.5, 1.5, 2.5]
    assert len(result.table.snapshots()) == 1


FAR = {
    "date": ("+20204-06-18", "-0044-03-15", "2024-02-29", "0000-01-01"),
    "timestamp": ("+20204-06-18T10:00:00.1234567", "-0044-03-15 10:00:00", "2024-02-29 10:00:00.5", "+294247-01-10T04:00:54.775807"),
    "timestamptz": ("+20204-06-18T10:00:00+02:00", "-0044-03-15 10:00:00Z", "2024-02-29 10:00:00-0130", "+12345-01-01T00:00:00"),
}
FAR_NUMBERS = {
    "date": [6_660_000, -735_525, 19_782, -719_528],
    "timestamp": [575_424_036_000_123_456, -63_549_324_000_000_000, 1_709_200_800_500_000, 2**63 - 1],
    "timestamptz": [575_424_028_800_000_000, -63_549_324_000_000_000, 1_709_206_200_000_000, 327_403_382_400_000_000],
}


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "inferred"])
@pytest.mark.parametrize("ending", ["csv", "json"])
def test_dates_of_any_year_are_loaded(load: Load, ending: str, declared: bool) -> None:
    records = [{"id": number, **dict(zip(FAR, texts, strict=True))} for number, texts in enumerate(zip(*FAR.values(), strict=True))]
    if ending == "csv":
        lines = [",".join(["id", *FAR]), *(",".join(map(str, record.values())) for record in records)]
        Path("a.csv").write_text("\n".join(lines))
    else:
        Path("a.json").write_text("\n".join(map(json.dumps, records)))
    result = load(f"a.{ending}", columns="id long, date date, timestamp timestamp, timestamptz timestamptz" if declared else None)
    found = [name for name in FAR if declared or ending == "csv" or name != "date"]  # dates of JSON stay text, as near ones do
    assert types_of(result) == {"id": "long", "date": "string", **{name: name for name in found}}
    rows = result.table.scan().to_arrow().sort_by("id")
    assert {name: as_numbers(rows[name]).to_pylist() for name in found} == {name: FAR_NUMBERS[name] for name in found}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "+20204-02-30"),
        ("date", "+999999999-01-01"),
        ("date", "20204-06-18"),
        ("timestamp", "+294248-01-01T00:00:00"),
        ("timestamp", "+20204-06-18T10:00:00Z"),
        ("timestamptz", "+20204-06-18T25:00:00Z"),
    ],
)
def test_a_far_date_that_the_type_does_not_have_is_a_bad_row(load: Load, kind: str, text: str) -> None:
    Path("a.csv").write_text(f"id,v\n1,{text}\n2,{FAR[kind][0]}\n")
    result = load("a.csv", columns=f"id long, v {kind}", bad_rows="skip")
    assert (result.table.scan().to_arrow()["id"].to_pylist(), result.bad_rows, result.first_bad_rows[0].line) == ([2], 1, 2)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "text"], "string"),
        (["text", "1"], "string"),
        (["-1", "2.5", " +7"], "double"),
        (["-.5", "1e-5", "inf", "NaN"], "double"),
        (["1", "2024-01-05"], "string"),
        (["2024-01-05", "1"], "string"),
        (["true", " FALSE", "1"], "string"),
        (["True", "", " "], "boolean"),
        (["2024-01-05", "2024-01-05 10:00:00"], "string"),
        (["+12024-01-05", "-0001-01-05"], "date"),
        (["+12024-01-05T10:00:00", "2024-01-05 10:00:00Z"], "timestamptz"),
        ([str(10**20), "-1"], "decimal(38, 0)"),
        (["1.5"] * 400 + ["x"], "string"),
        (["7"] * 400 + ["1.5"], "double"),
    ],
)
def test_the_type_of_texts_is_the_narrowest_of_all(texts: list[str], kind: str) -> None:
    types, in_blocks = TextTypes(), TextTypes()
    types.observe(pa.array(texts))
    for text in texts:
        in_blocks.observe(pa.array([text, None]))
    assert (str(types.narrowest_type()), str(in_blocks.narrowest_type())) == (kind, kind)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["7"] * 39 + ["n/a"], "long"),
        (["n/a", "n/b"] + ["7"] * 38, "long"),
        (["7"] * 37 + ["n/a"] * 3, None),
        (["7"] * 37 + ["2024-01-05"] * 3, None),
        (["2024-01-05"] * 39 + ["0"], "date"),
        (["7"] * 39 + ["07"], None),
        (["word"] * 40, None),
        (["2024-01-05 10:00:00"] * 39 + ["x"], "timestamp"),
        (["true"] * 13 + ["x", "y"] + [" "] * 5, None),
        (["true"] * 14 + ["x"] + [" "] * 5, "boolean"),
        ([], None),
    ],
)
def test_the_nearest_type_is_that_of_nearly_all_texts(texts: list[str], kind: str | None) -> None:
    nearest = nearest_type(pa.array(texts, pa.string()))
    assert (None if nearest is None else str(nearest)) == kind


def test_columns_of_words_are_compared_with_no_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_types, "_CONVERSIONS", {})
    assert nearest_type(pa.array(["n/a", "word", "x1", "-", "1"] * 20)) is None


def test_blocks_of_wide_files_are_longer(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []

    def opened(io: Any, path: str, decode: Any, block_bytes: int = 0) -> Any:
        lengths.append(block_bytes)
        return open_bytes(io, path, decode, block_bytes or 8)

    monkeypatch.setattr(csv_input, "BLOCK_BYTES", 8)
    monkeypatch.setattr(csv_input, "_COLUMNS_OF_BLOCK", 4)
    monkeypatch.setattr(csv_input, "open_bytes", opened)
    for columns, length in ((3, 8), (9, 24), (60, 64)):
        names = [f"c{column}" for column in range(columns)]
        text = "\n".join([",".join(names), *(",".join(map(str, range(row, row + columns))) for row in range(5))])
        Path("a.csv").write_text(text)
        rows = rows_of(load("a.csv", overwrite=True, add_columns=True), "c0")
        assert [row[names[-1]] for row in rows] == [row + columns - 1 for row in range(5)]
        assert lengths[-1] == length
