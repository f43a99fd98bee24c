"""JSON files: an object on each line, objects over several lines, arrays; the types of fields, and the text that is no object."""

import base64
import datetime as dt
import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.loading.conftest import Load, rows_of, types_of
from tests.loading.test_csv import Blocks

from icefloe.errors import InvalidInputError, SchemaMismatchError
from icefloe.loading.json_records import read_json_records
from icefloe.loading.json_types import MAX_FIELDS

ROWS: list[dict[str, Any]] = [{"id": 1, "s": '} "] \\'}, {"id": 2, "o": {"a": [{"b": "{"}]}}, {"id": 3, "s": "x\ny"}]


def split(text: bytes, size: int = 1 << 20) -> tuple[list[Any], list[int], list[tuple[int, str]]]:
    rows, lines, faults = [], [], []
    for block in read_json_records(Blocks(text, size)):  # type: ignore[arg-type]
        rows += block.rows
        lines += block.lines
        faults += [(fault.line, fault.reason) for fault in block.faults]
    return rows, lines, faults


FORMS = {
    "lines": "".join(json.dumps(row) + "\n" for row in ROWS),
    "lines without an end": "\r\n".join(json.dumps(row) for row in ROWS),
    "lines of arrays": "".join(f"[{json.dumps(row)}]\n" for row in ROWS),
    "array on one line": json.dumps(ROWS),
    "pretty array": "\n " + json.dumps(ROWS, indent=2) + "\n\n",
    "array with an object a line": "[\n" + ",\n".join(json.dumps(row) for row in ROWS) + "\n]\n",
    "pretty objects": "\n".join(json.dumps(row, indent=4) for row in ROWS),
    "objects on one line": "\n" + " ".join(json.dumps(row, indent=1) for row in ROWS),
    "with a byte order mark": "\ufeff" + json.dumps(ROWS),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_recognised(load: Load, form: str) -> None:
    Path("a.json").write_text(FORMS[form], encoding="utf-8")
    assert [{key: value for key, value in row.items() if value is not None} for row in rows_of(load("a.json"))] == ROWS


@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith(("array", "pretty", "objects"))])
def test_text_over_several_lines_is_cut_equally_in_blocks_of_any_size(form: str) -> None:
    text = FORMS[form].encode()
    start = len(text) - len(text.lstrip()) + 25  # the first block shows the form
    assert split(text)[0] == ROWS
    for size in (start, start + 1, start + 7, 60):
        assert split(text, size) == split(text)


def test_lines_are_counted_in_every_form() -> None:
    assert split(FORMS["array with an object a line"].encode())[1] == [2, 3, 4]
    assert split(FORMS["pretty objects"].encode())[1] == [1, 5, 15]
    assert split(b'{"a": 1}\n\n{"a": \n{"a": 2}\n')[1:] == ([1, 4], [(3, "is not complete")])


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('{"a": 1}\n17\n', [(2, "is int, not an object")]),
        ('{"a": 0}\n{"a": 1} {"a": 2}\n{"a": 3}\n', [(2, "trailing characters (byte 10)")]),
        ('{"a": \n{"a": 2}\n', [(1, "is not complete")]),
        ('{"a": 1}\n[{"a": 2}, 3, null]\n', [(2, "has 2 values in an array that are not objects")]),
        ('{"a": 1}\nnull\n', [(2, "is null, not an object")]),
        ('{"a": 1}\n{"a": "\udcff"}\n', [(2, "is not UTF-8")]),
        ('[\n{"a": 1},\n{"a": x},\n{"a": 3}\n]', [(3, "invalid character (byte 6)")]),
        ('[\n{"a": 1},\n{"a": 2}\n', [(4, "has an array that is not closed")]),
        ('[\n{"a": 1}\n]\nmore', [(3, "follows the end of the array")]),
        ('{\n"a": 1\n}\n}\n{\n"a": 2\n}', [(4, "invalid character (byte 0)")]),
        ('{\n"a": 1\n}\n{\n"a": ', [(4, "is not complete")]),
        ("hello\nworld\n", [(1, "invalid character (byte 0)"), (2, "invalid character (byte 0)")]),
    ],
)
def test_text_that_is_no_object_is_a_fault_of_its_line(text: str, faults: list[tuple[int, str]]) -> None:
    assert split(text.encode(errors="surrogateescape"))[2] == faults


def test_damaged_text_of_any_form_never_fails() -> None:
    chance = random.Random(3)
    for text in FORMS.values():
        for _ in range(300):
            damaged = bytearray(text.encode())
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(len(damaged))] = chance.choice(b'{}[]",\\\n x1')
            split(bytes(damaged), chance.choice((30, 64, 1 << 20)))


def test_brackets_without_end_are_read_in_linear_time() -> None:
    for text in (b"}" * 200_000, b"[" * 200_000, b'{"a":' * 100_000, b"[" + b'"\\\\' * 100_000):
        rows, _, faults = split(text)
        assert rows == []
        assert faults


def test_types_are_those_that_all_values_have(load: Load) -> None:
    rows = [
        {
            "id": 1,
            "n": 1,
            "x": 1,
            "t": "2024-01-05T10:00:00Z",
            "clock": "12:30",
            "year": "2024",
            "m": 1,
            "o": {"a": 1},
            "l": [1, None],
            "big": 2**63,
        },
        {"id": 2, "n": 2.5, "x": None, "t": "2024-01-05 10:00:00+01:00", "m": "x", "o": {"b": [{"c": True}]}, "l": [], "big": 1},
        {"id": 3, "e": {}, "m": {"k": [1]}, "nothing": None, "mixed": [1, "a"], "local": "2024-01-05T10:00:00"},
    ]
    Path("a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = load("a.json")
    types = {name: kind.split("<")[0] for name, kind in types_of(result).items()}
    assert types == {
        "id": "long",
        "n": "double",
        "x": "long",
        "t": "timestamptz",
        "clock": "string",
        "year": "string",
        "m": "string",
        "o": "struct",
        "l": "list",
        "big": "decimal(38, 0)",
        "e": "string",
        "nothing": "string",
        "mixed": "list",
        "local": "timestamp",
    }
    first, second, third = rows_of(result)
    assert (first["m"], second["m"], third["m"], third["e"], third["mixed"]) == ("1", "x", '{"k":[1]}', "{}", ["1", "a"])
    assert second["t"] == dt.datetime(2024, 1, 5, 9, tzinfo=dt.UTC)
    assert second["o"] == {"a": None, "b": [{"c": True}]}


def test_later_files_are_read_with_the_table_s_types(load: Load) -> None:
    Path("a.json").write_text('{"id": 1, "v": 1.5, "o": {"a": "x", "b": 1}}')
    Path("b.json").write_text('{"id": 2, "v": 3, "o": {"a": 7}}')
    load("a.json")
    assert rows_of(load("b.json"))[1] == {"id": 2, "v": 3.0, "o": {"a": "7", "b": None}}


def test_a_new_nested_field_is_refused_or_added(load: Load) -> None:
    Path("a.json").write_text('{"id": 1, "o": {"a": 1}, "l": [{"x": 1}]}')
    Path("b.json").write_text('{"id": 2, "o": {"a": 2, "new": true}, "l": [{"x": 2, "y": 3}]}')
    load("a.json")
    with pytest.raises(SchemaMismatchError, match=r"o\.new.*\n.*l\.element\.y.*\n.*--add-columns"):
        load("b.json")
    result = load("b.json", add_columns=True)
    assert rows_of(result) == [
        {"id": 1, "o": {"a": 1, "new": None}, "l": [{"x": 1, "y": None}]},
        {"id": 2, "o": {"a": 2, "new": True}, "l": [{"x": 2, "y": 3}]},
    ]


def test_values_are_converted_to_declared_types_and_the_others_are_bad_rows(load: Load) -> None:
    columns = "id int, d decimal(10,2), t timestamptz, b binary, m map<string, int>, l array<date>, s struct<x: double>, f boolean"
    good = {
        "id": 1,
        "d": 1.25,
        "t": "2024-01-05",
        "b": base64.b64encode(b"\0\1").decode(),
        "m": {"k": 1},
        "l": ["2024-01-05"],
        "s": {"x": 1},
        "f": False,
    }
    wrong = [
        {"id": 2**31},
        {"id": True},
        {"id": 1.5},
        {"id": "1"},
        {"d": "1.255"},
        {"t": 5},
        {"b": "%"},
        {"m": {"k": "x"}},
        {"m": [1]},
        {"l": "2024-01-05"},
        {"l": ["2024-02-30"]},
        {"s": 1},
        {"s": {"x": "1"}},
        {"f": 0},
    ]
    Path("a.json").write_text("".join(json.dumps({**good, **fault}) + "\n" for fault in [{}, *wrong]))
    result = load("a.json", columns=columns, bad_rows="skip")
    row = rows_of(result)[0]
    assert (str(row["d"]), row["t"], row["b"], row["m"], row["l"]) == (
        "1.25",
        dt.datetime(2024, 1, 5, tzinfo=dt.UTC),
        b"\0\1",
        [("k", 1)],
        [dt.date(2024, 1, 5)],
    )
    assert result.write.added_records == 1
    assert result.bad_rows == len(wrong)
    assert [(bad.line, bad.column, bad.reason) for bad in result.first_bad_rows][:2] == [
        (2, "id", "is not an int"),
        (3, "id", "is not an int"),
    ]


def test_a_wrong_key_of_a_map_rejects_its_own_row_and_no_other_map(load: Load) -> None:
    columns = "id int, d map<date, int>, n map<int, string>, l array<map<double, map<boolean, int>>>"
    good = [
        {"id": 1, "d": {"2024-01-05": 1, "2024-01-06": None}, "n": {"-1": "a"}, "l": [{"1.5": {"true": 1}}, {}, None]},
        {"id": 2, "d": {}, "n": None, "l": [{"2": None, "3": {"false": 2, "true": 3}}]},
    ]
    wrong = [
        {"d": {"2024-01-05": 1, "bad": 2}},
        {"d": {"": 1}},
        {"n": {"1.5": "a"}},
        {"n": {"1": "a", " 1": "b"}},
        {"l": [{"1": {"true": 1}}, {"x": {"true": 2}}]},
        {"l": [{"1": {"maybe": 1}}]},
    ]
    rows = [good[0], *({"id": 9, **fault} for fault in wrong), good[1]]
    Path("a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = load("a.json", columns=columns, bad_rows="skip")
    assert rows_of(result) == [
        {
            "id": 1,
            "d": [(dt.date(2024, 1, 5), 1), (dt.date(2024, 1, 6), None)],
            "n": [(-1, "a")],
            "l": [[(1.5, [(True, 1)])], [], None],
        },
        {"id": 2, "d": [], "n": None, "l": [[(2.0, None), (3.0, [(False, 2), (True, 3)])]]},
    ]
    assert [(bad.line, bad.column, bad.reason) for bad in result.first_bad_rows] == [
        (2, "d", "is not a date"),
        (3, "d", "has an empty key"),
        (4, "n", "has a key that is not an int"),
        (5, "n", "has the key 1 twice"),
        (6, "l", "has a key that is not a double"),
    ]
    assert result.bad_rows == len(wrong)


def test_objects_with_names_for_values_are_refused(load: Load, nothing_remains: Callable[[], None]) -> None:
    Path("a.json").write_text("".join(f'{{"key{number}": 1}}\n' for number in range(MAX_FIELDS + 1)))
    with pytest.raises(InvalidInputError, match="different fields"):
        load("a.json")
    nothing_remains()


def test_deep_values_are_texts_of_json(load: Load) -> None:
    Path("a.json").write_text('{"id": 1, "v": ' + "[" * 200 + "1" + "]" * 200 + "}\n")
    value = rows_of(load("a.json"))[0]["v"]
    while isinstance(value, list):
        value = value[0]
    assert value.startswith("[[[")


def test_a_value_that_is_nested_without_end_is_a_bad_row(load: Load) -> None:
    Path("a.json").write_text('{"id": 1}\n{"id": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    result = load("a.json", bad_rows="skip")
    assert (result.write.added_records, result.bad_rows) == (1, 1)
    assert result.first_bad_rows[0].reason == "is nested too deeply"


def test_files_without_objects_are_refused(load: Load, nothing_remains: Callable[[], None]) -> None:
    for text in ("\n\n", "[]", "[\n]", "1\n", "{}\n"):
        Path("a.json").write_text(text)
        with pytest.raises(InvalidInputError, match="no columns"):
            load("a.json")
    nothing_remains()


@pytest.mark.parametrize("text", ['{"id": 1, "p": 12345678901234567.89}', '[{"id": 1, "p": 12345678901234567.89}]'])
def test_decimals_are_loaded_as_they_are_written(load: Load, text: str) -> None:
    Path("a.json").write_text(text)
    loaded = load("a.json", columns="id long, p decimal(20, 2)")
    assert rows_of(loaded) == [{"id": 1, "p": Decimal("12345678901234567.89")}]


def test_decimals_in_structs_and_lists_are_exact_and_other_columns_are_as_without_them(load: Load) -> None:
    Path("a.json").write_text('{"id": 1, "s": {"p": [12345678901234567.89]}, "d": 1.5, "t": {"x": [1.10]}}\n')
    (row,) = rows_of(load("a.json", columns="id long, s struct<p: list<decimal(20, 2)>>, d double, t string"))
    assert row == {"id": 1, "s": {"p": [Decimal("12345678901234567.89")]}, "d": 1.5, "t": '{"x":[1.10]}'}


def test_whole_numbers_in_a_column_of_floats_are_rounded_and_larger_ones_are_bad_rows(load: Load) -> None:
    Path("a.json").write_text('{"id": 1, "d": 1.5}\n{"id": 2, "d": 9007199254740993}\n{"id": 3, "d": 1%s}\n' % ("0" * 400))
    loaded = load("a.json", bad_rows="skip")
    assert [row["d"] for row in rows_of(loaded)] == [1.5, 9007199254740992.0]
    assert [(row.line, row.reason) for row in loaded.first_bad_rows] == [(3, "is not a double")]
