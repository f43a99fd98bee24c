"""Forged tables: real ones whose metadata file, manifest lists and manifests are written again with other paths."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro

from icefloe.table import Table

Change = Callable[[dict[str, Any]], None]


def nothing(document: dict[str, Any]) -> None:
    """Leave the JSON of the metadata file as it is."""


def forged(table: Table, folder: Path, change: Change = nothing, paths: Mapping[str, str] | None = None) -> str:
    """Write the table's metadata again under `folder/metadata`, with `change` made to its JSON and paths of data files replaced; return where it is."""
    metadata = folder / "metadata"
    metadata.mkdir(parents=True, exist_ok=True)
    document = json.loads(Path(table.metadata_location).read_text())
    if paths:
        for snapshot in document["snapshots"]:
            snapshot["manifest-list"] = _forged_list(snapshot["manifest-list"], metadata, paths)
    change(document)
    location = metadata / f"00099-{table.metadata.table_uuid}.metadata.json"
    location.write_text(json.dumps(document))
    return str(location)


def _forged_list(source: str, folder: Path, paths: Mapping[str, str]) -> str:
    def line(record: dict[str, Any]) -> None:
        made, _ = rewritten_avro(record["manifest_path"], folder, lambda entry: _replace(entry["data_file"], paths))
        record.update(manifest_path=made, manifest_length=Path(made).stat().st_size)

    return rewritten_avro(source, folder, line)[0]


def _replace(file: dict[str, Any], paths: Mapping[str, str]) -> None:
    file["file_path"] = paths.get(file["file_path"], file["file_path"])


def rewritten_avro(source: str, folder: Path, change: Change) -> tuple[str, int]:
    """Write an Avro file again in a folder, with `change` made to its records; return where it is, and the number of its records."""
    reader = fastavro.reader(io.BytesIO(Path(source).read_bytes()))
    records = list(reader)
    for record in records:
        change(record)
    keys = {key: text for key, text in reader.metadata.items() if not key.startswith("avro.")}
    target = folder / f"forged-{Path(source).name}"
    with target.open("wb") as out:
        fastavro.writer(out, reader.writer_schema, records, metadata=keys)
    return str(target), len(records)
