"""A model of upserts into any table: the expected rows in plain Python, on top of the model of the whole format."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st
from tests.table.format_values import LATER, Plain, arrow_of_rows, values
from tests.table.test_whole_format import Model, Row

from icefloe.errors import InvalidInputError
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField, StructType


def alike(value: Plain) -> Plain:
    """Return a form in which values that an upsert treats as equal are equal: NaN equals NaN, the zeros are equal, fields of unknown type are omitted."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0  # noqa: PLR0124 NaN
    if isinstance(value, dict):
        return {name: alike(member) for name, member in value.items()}
    return [alike(item) for item in value] if isinstance(value, list | tuple) else value


def key_paths(fields: tuple[NestedField, ...], path: tuple[NestedField, ...] = ()) -> list[tuple[NestedField, ...]]:
    """Return every column that may be a key, as the path from its top-level column through structs."""
    found: list[tuple[NestedField, ...]] = []
    for field in fields:
        here = (*path, field)
        if isinstance(field.field_type, StructType):
            found += key_paths(field.field_type.fields, here)
        elif field.field_type.is_primitive and (field.field_type not in LATER or field.field_type in LATER[:2]):
            found.append(here)
    return found


def key_of(row: Row, paths: list[tuple[NestedField, ...]]) -> tuple[Plain, ...] | None:
    """Return the key of a row; None where a part of it is null."""
    found = []
    for path in paths:
        value: Any = row
        for field in path:
            value = value and value[field.field_id]
        found.append(alike(value))
    return None if None in found else tuple(map(repr, found))


@dataclass
class Upserting(Model):
    """The model with one more step."""

    def source(self, schema: Schema) -> list[Row]:
        """Draw rows of which some are in the table, unchanged or with one other value."""
        rows: list[Row] = []
        for _ in range(self.draw(st.integers(0, 6), "rows")):
            new = {field.field_id: self.draw(values(field), "value") for field in schema.fields}
            old = [self.project(schema.fields, row) for row in self.rows]
            if old and self.draw(st.integers(0, 3), "from the table"):
                known = self.draw(st.sampled_from(old), "of the table")
                other = self.draw(st.sets(st.sampled_from([field.field_id for field in schema.fields[1:]] or [0]), max_size=1), "changed")
                new = {number: new[number] if number in other else value for number, value in known.items()}
            else:
                new[schema.fields[0].field_id] = self.next_k
                self.next_k += 1
            rows.append(new)
        return rows

    def upsert(self) -> None:
        schema = self.table.schema()
        rows = self.source(schema)
        options = key_paths(schema.fields)
        chosen = self.draw(st.lists(st.sampled_from(options), min_size=1, max_size=2, unique_by=str), "keys")
        paths = chosen if self.draw(st.booleans(), "other keys than k") else [schema.fields[:1]]
        names = [".".join(field.name for field in path) for path in paths]
        updates, inserts = self.draw(st.sampled_from([(True, True), (True, True), (True, False), (False, True)]), "what")
        if self.table.metadata.format_version > 1:
            self.table.set_properties({"write.merge.mode": self.draw(st.sampled_from(["copy-on-write", "merge-on-read"]), "merge mode")})
        before = self.table.metadata_location

        keys = [key_of(row, paths) for row in rows]
        places: dict[Any, list[int]] = {}
        for place, row in enumerate(self.rows):
            places.setdefault(key_of(self.project(schema.fields, row), paths), []).append(place)
        arrow = self.engine_rows(arrow_of_rows(schema.fields, rows))
        several = any(count > 1 for key, count in Counter(keys).items() if key is not None)
        if several or (updates and any(key is not None and len(places.get(key, ())) > 1 for key in keys)):
            with pytest.raises(InvalidInputError, match="more than once" if several else "match several rows"):
                self.table.upsert(arrow, names, updates, inserts)
            assert self.table.refresh().metadata_location == before
            note("refused")
            return
        result = self.table.upsert(arrow, names, updates, inserts)
        assert result.operation == "upsert"
        self.follow(schema, rows, keys, places, result, updates=updates, inserts=inserts)

    def check_lineage(self) -> None:
        """Check the lineage of rows by k while k is unique; an upsert by other keys can make it ambiguous."""
        key = self.table.schema().fields[0].field_id
        seen = Counter(row[key] for row in self.rows)
        if max(seen.values(), default=1) == 1:
            super().check_lineage()
            return
        self.lineage = {k: known for k, known in self.lineage.items() if seen[k] == 1}
        ids = [row for row in self.table.scan().select("_row_id").to_arrow()["_row_id"].to_pylist() if row is not None]
        assert len(set(ids)) == len(ids)

    def engine_rows(self, rows: Any) -> Any:
        """Return the rows in the form that the engine under test accepts."""
        return rows

    def follow(
        self, schema: Schema, rows: list[Row], keys: list[Any], places: dict[Any, list[int]], result: Any, *, updates: bool, inserts: bool
    ) -> None:
        """Apply the upsert to the rows of the model."""
        after = list(self.rows)
        counts = Counter[str]()
        k = schema.fields[0].field_id
        changed: list[int] = []
        for row, key in zip(rows, keys, strict=True):
            there = places.get(key, ()) if key is not None else ()
            if not there:
                if inserts:
                    counts["inserted"] += 1
                    after.append(row)
                    self.lineage.pop(row[k], None)
                    changed.append(row[k])
                continue
            old = self.project(schema.fields, self.rows[there[0]])
            if updates and any(alike(old[number]) != alike(row[number]) for number in old):
                counts["updated"] += 1
                after[there[0]] = row
                known = self.lineage.pop(old[k], None)
                self.check_row_id(row[k], old[k], known)
                changed.append(row[k])
            else:
                counts["unchanged"] += 1
        assert (result.rows_updated, result.rows_inserted, result.rows_unchanged) == (
            counts["updated"],
            counts["inserted"],
            counts["unchanged"],
        )
        assert (result.snapshot_id is None) == (not changed)
        self.rows, self.fresh = after, tuple(changed)

    def check_row_id(self, k: int, old_k: int, known: tuple[int, int] | None) -> None:
        """Check that an updated row keeps its row id and has the sequence number of this commit."""
        if k != old_k:
            self.lineage.pop(k, None)  # of another row, which has the same k now
        if known is not None:
            found = self.table.scan(f"k = {k}").select("_row_id").to_arrow()["_row_id"].to_pylist()
            assert known[0] in found
