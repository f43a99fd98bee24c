"""A table as files on disk that a test changes byte by byte: its metadata JSON, manifest lists and manifests."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from icefloe import SqlCatalog
from icefloe.checks.finding import Finding
from icefloe.checks.table_validation import ValidationArguments, ValidationResult, validate_table
from icefloe.io.local_file_io import LocalFileIO
from icefloe.table import Table

SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64())])
Record = dict[str, Any]


def written_table(folder: Path, version: int = 2, name: str = "t") -> Table:
    """Return a partitioned table with three appends, a delete by position or vector, and an overwrite."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    properties = {"format-version": str(version), "write.delete.mode": "merge-on-read" if version > 1 else "copy-on-write"}
    table = catalog.create_table(f"db.{name}", SCHEMA, partition_spec=["day"], properties=properties)
    for days in ("aabb", "b", "a"):
        table.append(pa.table({"day": [*days], "n": range(len(days))}, schema=SCHEMA))
    table.delete("n = 2")
    table.overwrite(pa.table({"day": ["c"], "n": [1]}, schema=SCHEMA), "day = 'b'")
    return table


@dataclass(frozen=True)
class StoredTable:
    """A table by the location of its metadata file."""

    metadata: Path

    @classmethod
    def written(cls, folder: Path, version: int = 2) -> "StoredTable":
        return cls(Path(written_table(folder, version).metadata_location))

    def validated(self, arguments: ValidationArguments | None = None) -> ValidationResult:
        return validate_table("t", str(self.metadata), LocalFileIO(), arguments)

    def findings(self, arguments: ValidationArguments | None = None) -> tuple[Finding, ...]:
        return self.validated(arguments).findings

    def document(self) -> Record:
        document: Record = json.loads(self.metadata.read_text())
        return document

    def edit(self, change: Callable[[Record], object]) -> None:
        """Change the metadata JSON in place."""
        document = self.document()
        change(document)
        self.metadata.write_text(json.dumps(document))

    def snapshot(self) -> Record:
        """Return the JSON of the current snapshot."""
        document = self.document()
        return next(one for one in document["snapshots"] if one["snapshot-id"] == document["current-snapshot-id"])

    def lists(self) -> list[Path]:
        """Return the manifest lists of all snapshots."""
        return [Path(one["manifest-list"]) for one in self.document()["snapshots"]]

    def manifest_list(self) -> Path:
        """Return the manifest list of the current snapshot."""
        return Path(self.snapshot()["manifest-list"])

    def manifests(self, content: int = 0) -> list[Path]:
        """Return the manifests of the current snapshot with data files, or with delete files."""
        return [Path(row["manifest_path"]) for row in records_of(self.manifest_list()) if row.get("content", 0) == content]

    def edit_list(self, change: Callable[[list[Record]], object]) -> None:
        """Change the entries of the current snapshot's manifest list."""
        edit_avro(self.manifest_list(), change)

    def edit_every_list(self, change: Callable[[list[Record]], object]) -> None:
        for path in self.lists():
            edit_avro(path, change)

    def edit_manifest(
        self,
        path: Path,
        change: Callable[[list[Record]], object] = lambda _: None,
        header: Callable[[dict[str, str]], object] = lambda _: None,
        schema: Callable[[Any], object] = lambda _: None,
    ) -> None:
        """Change the entries of a manifest, and keep true what others state of them: its length and partitions in lists, the sizes of files in summaries."""
        before = records_of(path)
        edit_avro(path, change, header, schema)
        after = records_of(path)
        has_other_partitions = partitions_of(before) != partitions_of(after)

        def update(rows: list[Record]) -> None:
            for row in rows:
                if row["manifest_path"] == str(path):
                    row["manifest_length"] = path.stat().st_size
                    row["partitions"] = None if has_other_partitions else row["partitions"]

        self.edit_every_list(update)
        if [one["status"] for one in before] == [one["status"] for one in after]:
            self._add_to_sizes(path, live_size(after) - live_size(before))

    def _add_to_sizes(self, manifest: Path, size: int) -> None:
        def change(document: Record) -> None:
            for snapshot in document["snapshots"]:
                key = "total-files-size"
                if any(row["manifest_path"] == str(manifest) for row in records_of(Path(snapshot["manifest-list"]))):
                    snapshot["summary"][key] = str(int(snapshot["summary"][key]) + size)

        if size:
            self.edit(change)


def partitions_of(entries: list[Record]) -> list[Any]:
    return [entry["data_file"]["partition"] for entry in entries]


def live_size(entries: list[Record]) -> int:
    """Return the bytes of live files; of deletion vectors those of their blobs."""
    files = [entry["data_file"] for entry in entries if entry["status"] in (0, 1)]
    return sum(file.get("content_size_in_bytes") or file["file_size_in_bytes"] for file in files)


def records_of(path: Path) -> list[Record]:
    """Return the records of an Avro file."""
    with path.open("rb") as stream:
        return list(fastavro.reader(stream))  # type: ignore[arg-type]


def edit_avro(
    path: Path,
    change: Callable[[list[Record]], object],
    header: Callable[[dict[str, str]], object] = lambda _: None,
    schema: Callable[[Any], object] = lambda _: None,
) -> None:
    """Change the records of an Avro file, its key-value metadata, and its schema."""
    content = path.read_bytes()
    reader = fastavro.reader(io.BytesIO(content))
    records: list[Record] = list(reader)  # type: ignore[arg-type]
    metadata = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
    parsed_schema = json.loads(reader.metadata["avro.schema"])
    change(records)
    header(metadata)
    schema(parsed_schema)
    target = io.BytesIO()
    fastavro.writer(target, parsed_schema, records, codec="deflate", metadata=metadata)
    path.write_bytes(target.getvalue())
