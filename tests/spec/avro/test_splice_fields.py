"""Replacement of fields in Avro files: all other bytes of each record stay, whatever the writer's schema has besides."""

from pathlib import Path
from typing import Any

import fastavro
import pytest

from icefloe.errors import AvroFormatError, InvalidInputError
from icefloe.spec.manifest.moved_manifest import moved_delete_manifest, moved_manifest_list
from icefloe.spec.path_prefix import PathPrefix

PREFIX = PathPrefix("/lake/t", "s3://bucket/a much longer place")


def field(field_id: int | None, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind} | ({} if field_id is None else {"field-id": field_id})


def written(path: Path, fields: list[dict[str, Any]], rows: list[dict[str, Any]], codec: str) -> bytes:
    schema = {"type": "record", "name": "manifest_file", "fields": fields}
    with path.open("wb") as output:
        fastavro.writer(output, schema, rows, codec=codec, metadata={"format-version": "2", "more": "x"}, sync_interval=100)
    return path.read_bytes()


def read(content: bytes, path: Path) -> tuple[list[Any], dict[str, str]]:
    path.write_bytes(content)
    with path.open("rb") as source:
        reader = fastavro.reader(source)
        return list(reader), {key: text for key, text in reader.metadata.items() if key != "avro.schema"}


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_unknown_fields_and_the_header_stay(tmp_path: Path, codec: str, with_ids: bool) -> None:
    ids = {"manifest_path": 500, "manifest_length": 501, "unknown": 9999, "other": 9998}
    kinds = {
        "manifest_path": "string",
        "manifest_length": "long",
        "unknown": ["null", "double", "string"],
        "other": {"type": "map", "values": "long"},
    }
    fields = [field(ids[name] if with_ids else None, name, kind) for name, kind in kinds.items()]
    rows = [
        {"manifest_path": f"/lake/t/metadata/ü{n}.avro", "manifest_length": n, "unknown": [None, 1.5, "x"][n % 3], "other": {"k": n}}
        for n in range(300)
    ]
    content = written(tmp_path / "list.avro", fields, rows, codec)
    moved = moved_manifest_list(content, "list.avro", PREFIX, {row["manifest_path"]: row["manifest_length"] + 10**12 for row in rows})
    expected = [
        {**row, "manifest_path": PREFIX.move(row["manifest_path"]), "manifest_length": row["manifest_length"] + 10**12} for row in rows
    ]
    assert read(moved, tmp_path / "moved.avro") == (expected, read(content, tmp_path / "same.avro")[1])
    assert moved_manifest_list(content, "list.avro", PREFIX, {row["manifest_path"]: 1 for row in rows}) == moved_manifest_list(
        content, "list.avro", PREFIX, {row["manifest_path"]: 1 for row in rows}
    )


def test_files_that_cannot_be_spliced_are_refused(tmp_path: Path) -> None:
    kinds = [field(1, "unknown", "string"), field(500, "manifest_path", "string"), field(501, "manifest_length", "long")]
    rows = [{"unknown": "x", "manifest_path": "/lake/t/x", "manifest_length": 1}]
    content = written(tmp_path / "list.avro", kinds, rows, "null")
    with pytest.raises(AvroFormatError, match="begin with"):
        moved_manifest_list(content, "list.avro", PREFIX, {"/lake/t/x": 1})
    content = written(tmp_path / "list.avro", kinds[1:], rows, "null")
    with pytest.raises(InvalidInputError, match="source prefix"):
        moved_manifest_list(content, "list.avro", PathPrefix("/lake/u", "/x"), {"/lake/t/x": 1})
    for damaged in (content[:-3], content[:40], b""):
        with pytest.raises(AvroFormatError):
            moved_manifest_list(damaged, "list.avro", PREFIX, {"/lake/t/x": 1})
    with pytest.raises(AvroFormatError):
        moved_delete_manifest(content, "list.avro", PREFIX, {})
    small = [field(500, "manifest_path", "string"), field(501, "manifest_length", ["long", "null"])]
    content = written(tmp_path / "list.avro", small, rows, "null")
    with pytest.raises(AvroFormatError):
        moved_manifest_list(content, "list.avro", PREFIX, {"/lake/t/x": 1})
