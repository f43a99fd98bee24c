"""Rows of libraries that export Arrow (Polars, DuckDB and others) in append, overwrite and upsert; lazy frames of Polars are refused with the way."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.errors import InvalidInputError, SchemaMismatchError


class Exported:
    """A frame of another library: it has the Arrow PyCapsule interface alone."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)


class LazyFrame:
    """A frame without rows."""


def test_frames_with_the_arrow_interface_are_appended_overwritten_and_upserted(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("name", pa.string()), ("l", pa.list_(pa.string()))]))
    # Types of Polars: texts as views, and large lists.
    schema = pa.schema([("id", pa.int64()), ("name", pa.string_view()), ("l", pa.large_list(pa.large_string()))])

    def frame(*rows: tuple[int, str]) -> Exported:
        return Exported(pa.Table.from_pylist([{"id": number, "name": text, "l": [text, None]} for number, text in rows], schema=schema))

    def found() -> list[tuple[int, str, list[str | None]]]:
        return sorted((row["id"], row["name"], row["l"]) for row in table.scan().to_arrow().to_pylist())

    table.append(frame((1, "a"), (2, "b")))
    assert found() == [(1, "a", ["a", None]), (2, "b", ["b", None])]
    table.upsert(frame((2, "c"), (3, "d")), join_cols=["id"])
    assert found() == [(1, "a", ["a", None]), (2, "c", ["c", None]), (3, "d", ["d", None])]
    table.overwrite(frame((4, "e")), "id > 1")
    assert found() == [(1, "a", ["a", None]), (4, "e", ["e", None])]
    with pytest.raises(SchemaMismatchError, match="other"):
        table.append(Exported(pa.table({"id": [1], "other": [1]})))
    with pytest.raises(InvalidInputError, match=r"of a Polars LazyFrame its collect\(\)"):
        table.append(LazyFrame())
