"""Pruning a table whose schema has evolved: files that lack a column with or without a default, files with dropped columns, and bounds from before a type
promotion. No matching row is lost, compared with brute force.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.brute_force import SCHEMA as ALL
from tests.spec.brute_force import VALUES, filters, truth
from tests.spec.random_files import RandomFile, _statistics, columns_of

from icefloe.scan.decisions import Reason
from icefloe.scan.pruning import explain, inclusive_mask, strict_mask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import GeographyType, GeometryType, NestedField, StringType, UnknownType, VariantType

# `i` is in every file; the other columns were added later, some with a default that rows of older files have. `y` was dropped.
DEFAULTS = {"l": 5, "s": "ab", "f": -0.0, "n": 1000, "t": None, "m": None}
SCHEMA = Schema(
    *(
        NestedField(field.field_id, field.name, field.field_type, False, None, DEFAULTS.get(field.name))
        for field in ALL.fields
        if field.name in {"i", *DEFAULTS}
    )
)
COLUMNS = tuple(field.name for field in SCHEMA.fields)


@st.composite
def files(draw: st.DrawFn, columns: tuple[str, ...]) -> list[RandomFile]:
    """Files that have some of the columns; in the others each row has the default. A dropped column has statistics too."""
    chance = Random(draw(st.integers(0, 2**16)))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        present = [name for name in columns if name == "i" or chance.random() < 0.5]
        rows: list[dict[str, Any]] = []
        for _ in range(chance.randrange(1, 4)):
            row = {**dict.fromkeys(COLUMNS), **DEFAULTS}
            row |= {name: chance.choice([None, *VALUES[name]]) for name in present}
            rows.append(row)
        file = RandomFile(rows, ())
        for name in present:
            file.statistics.update(_statistics(chance, ALL.find_field(name), [row[name] for row in rows], sloppy=True))
        dropped = [chance.choice([None, *VALUES["y"]]) for _ in rows]
        file.statistics.update(_statistics(chance, ALL.find_field("y"), dropped, sloppy=True))
        found.append(file)
    return found


@settings(max_examples=examples(400))
@given(st.data())
def test_no_file_with_a_matching_row_is_skipped_and_a_covered_file_matches_whole(data):
    columns = tuple(data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True)))
    files_of_table = data.draw(files(columns))
    expression = data.draw(filters(columns))
    bound = bind(expression, SCHEMA)
    table = columns_of(files_of_table, UNPARTITIONED_SPEC, ALL)
    may, must = (mask(table, bound, UNPARTITIONED_SPEC, SCHEMA) for mask in (inclusive_mask, strict_mask))
    for index, file in enumerate(files_of_table):
        matches = [truth(expression, row) is True for row in file.rows]
        assert may[index] or not any(matches), (str(bound), file)
        assert not must[index] or all(matches), (str(bound), file)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("v IS NULL", True),
        ("v IS NOT NULL", True),
        ("g IS NULL", False),
        ("g IS NOT NULL", True),
        ("h IS NULL", True),
        ("h IS NOT NULL", False),
        ("u IS NULL", True),
        ("u IS NOT NULL", False),
        ("_file = 'f0'", True),
        ("_file IN ('f1', 'f2')", False),
        ("_file LIKE 'f%' AND _spec_id = 0", True),
        ("_spec_id > 0", False),
        ("_row_id = 5", True),
        ("_row_id IS NULL", True),
        ("_pos >= 100", True),
        ("_last_updated_sequence_number < 0", True),
    ],
)
def test_columns_that_have_no_bounds_are_pruned_by_what_is_sure(text, kept):
    schema = Schema(
        NestedField(1, "v", VariantType()),
        NestedField(2, "g", GeometryType()),
        NestedField(3, "h", GeographyType()),
        NestedField(4, "u", UnknownType()),
        NestedField(5, "s", StringType()),
    )
    row_ids = 2147483540
    corner = b"\x00" * 16
    statistics = {
        # A variant's counts are those of its parts, which differ by writer; stored row ids are some rows' only.
        **{f"null_value_count.{field_id}": 0 for field_id in (1, 2, row_ids)},
        **{f"{name}.{field_id}": corner for field_id in (1, 2, 3) for name in ("lower_bound", "upper_bound")},
        "null_value_count.3": 2,
        "lower_bound.2147483540": b"\x09" + b"\x00" * 7,
        "upper_bound.2147483540": b"\x0a" + b"\x00" * 7,
    }
    wide = Schema(*schema.fields, NestedField(row_ids, "_row_id", StringType()))
    table = columns_of([RandomFile([{}, {}], (), statistics)], UNPARTITIONED_SPEC, wide)
    bound = bind(parse_filter(text), schema)
    assert inclusive_mask(table, bound, UNPARTITIONED_SPEC, schema).tolist() == [kept]
    assert strict_mask(table, bound, UNPARTITIONED_SPEC, schema).tolist() == [
        text in ("g IS NOT NULL", "h IS NULL", "u IS NULL", "_file = 'f0'", "_file LIKE 'f%' AND _spec_id = 0")
    ]
    reason, explanation = explain(table, bound, UNPARTITIONED_SPEC, schema)[0]
    assert (reason in (Reason.MAY_MATCH, Reason.ALL_MATCH)) == kept
    if "_file IN" in text:
        assert explanation == "_file is 'f0', required: IN ('f1', 'f2')"
