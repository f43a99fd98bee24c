"""A reference reader: it reads a table from its metadata file down to the rows with JSON, fastavro and PyArrow instead of Icefloe's readers.

Tests compare Icefloe with it: it returns the files and rows of a table without any of the code that wrote them. It is slow and simple and reads
Parquet only. `commit_model.py` checks the results.
Spec: Manifests; Manifest Lists; Sequence Number Inheritance; First Row ID Inheritance; Scan Planning; Deletion Vectors.
"""

import io as streams
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring

from icefloe.spec.metadata.json_file import inflate, parse_json
from icefloe.spec.ports import FileIO

Key = tuple[str, int | None]
DELETED = 2  # the status of an entry whose file was removed from the table
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
# Field ids of the columns of position delete files, and of the row id in data files. Spec: Reserved Field IDs.
_PATH, _POS, _ROW_ID = 2147483546, 2147483545, 2147483540


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """One live entry of a snapshot, with inherited values applied."""

    content: int
    path: str
    offset: int | None
    length: int | None
    size: int
    records: int
    sequence_number: int
    partition: tuple[int, tuple[tuple[str, Any], ...]]  # spec id and partition tuple
    is_global: bool  # its partition spec has no fields
    referenced: str | None
    equality_ids: tuple[int, ...]
    first_row_id: int | None

    @property
    def key(self) -> Key:
        """The identity of the file: path and offset, since many deletion vectors share one Puffin file."""
        return (self.path, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRow:
    """A live row: its values by field id, the path of its data file, and its row id from format version 3 on."""

    values: Mapping[int, Any]
    path: str
    row_id: int | None


class ReferenceReader:
    """A reader of the tables in one storage; each file is read once, since files never change."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._documents: dict[str, dict[str, Any]] = {}
        self._avro: dict[str, list[dict[str, Any]]] = {}
        self._tables: dict[str, list[dict[int, Any]]] = {}
        self._live: dict[str, tuple[LiveFile, ...]] = {}

    def document(self, location: str) -> dict[str, Any]:
        """Return the JSON of a metadata file."""
        if location not in self._documents:
            content = self._io.read(location)
            self._documents[location] = parse_json(inflate(content, location), location)
        return self._documents[location]

    def snapshot(self, document: Mapping[str, Any], snapshot_id: int) -> dict[str, Any]:
        """Return the JSON of one snapshot in the metadata."""
        snapshots: list[dict[str, Any]] = document.get("snapshots", [])
        return next(snapshot for snapshot in snapshots if snapshot["snapshot-id"] == snapshot_id)

    def manifests(self, snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of the snapshot's manifest list."""
        return self._read_avro(snapshot["manifest-list"])

    def live_files(self, document: Mapping[str, Any], snapshot: Mapping[str, Any]) -> tuple[LiveFile, ...]:
        """Return the live data and delete files of the snapshot."""
        key = snapshot["manifest-list"]
        if key not in self._live:
            specs = {spec["spec-id"]: spec["fields"] for spec in document["partition-specs"]}
            self._live[key] = tuple(
                file for manifest in self.manifests(snapshot) for file in self._files_of(manifest, specs[manifest["partition_spec_id"]])
            )
        return self._live[key]

    def _files_of(self, manifest: Mapping[str, Any], fields: list[Any]) -> Iterator[LiveFile]:
        next_row_id = manifest.get("first_row_id")
        for entry in self._read_avro(manifest["manifest_path"]):
            if entry["status"] == DELETED:
                continue
            file = entry["data_file"]
            content, first_row_id = file.get("content") or DATA, file.get("first_row_id")
            if content == DATA and first_row_id is None and next_row_id is not None:
                first_row_id = next_row_id
                next_row_id += file["record_count"]
            number = entry.get("sequence_number")
            yield LiveFile(
                content=content,
                path=file["file_path"],
                offset=file.get("content_offset"),
                length=file.get("content_size_in_bytes"),
                size=file.get("content_size_in_bytes") or file["file_size_in_bytes"],
                records=file["record_count"],
                sequence_number=(manifest.get("sequence_number") or 0) if number is None else number,
                partition=(manifest["partition_spec_id"], tuple(sorted(file["partition"].items()))),
                is_global=not fields,
                referenced=file.get("referenced_data_file"),
                equality_ids=tuple(file.get("equality_ids") or ()),
                first_row_id=first_row_id,
            )

    def rows(self, document: Mapping[str, Any], snapshot: Mapping[str, Any]) -> Iterator[LiveRow]:
        """Yield the rows of the snapshot that no delete file deletes. Spec: Scan Planning."""
        files = self.live_files(document, snapshot)
        deletes = [file for file in files if file.content != DATA]
        for data in files:
            if data.content != DATA:
                continue
            deleted = self._deleted_positions(data, deletes)
            keys = [self._deleted_keys(file) for file in deletes if _is_equality_delete_of(file, data)]
            for position, row in enumerate(self._rows_of(data.path)):
                if position in deleted or any(tuple(row.get(number) for number in numbers) in values for numbers, values in keys):
                    continue
                row_id = row.get(_ROW_ID)
                if row_id is None and data.first_row_id is not None:
                    row_id = data.first_row_id + position
                yield LiveRow(values=row, path=data.path, row_id=row_id)

    def _deleted_positions(self, data: LiveFile, deletes: list[LiveFile]) -> set[int]:
        applying = [file for file in deletes if file.content == POSITION_DELETES and file.sequence_number >= data.sequence_number]
        vectors = [file for file in applying if file.offset is not None and file.referenced == data.path]
        if vectors:
            [vector] = vectors  # a data file has at most one
            return self._vector(vector)
        positions: set[int] = set()
        for file in applying:
            if file.offset is None and file.partition == data.partition and file.referenced in (None, data.path):
                positions.update(row[_POS] for row in self._rows_of(file.path) if row[_PATH] == data.path)
        return positions

    def _deleted_keys(self, file: LiveFile) -> tuple[tuple[int, ...], set[tuple[Any, ...]]]:
        return file.equality_ids, {tuple(row.get(number) for number in file.equality_ids) for row in self._rows_of(file.path)}

    def _vector(self, file: LiveFile) -> set[int]:
        assert file.offset is not None and file.length is not None  # noqa: PT018  the caller passes deletion vectors
        blob = self._io.read(file.path)[file.offset : file.offset + file.length]
        # Four bytes of length, four magic bytes, the bitmap, four bytes of checksum. Spec: Puffin, deletion-vector-v1.
        return set(pyroaring.BitMap64.deserialize(blob[8:-4]))

    def _rows_of(self, path: str) -> list[dict[int, Any]]:
        if path not in self._tables:
            table = pq.read_table(pa.BufferReader(self._io.read(path)))
            names = {int(field.metadata[b"PARQUET:field_id"]): field.name for field in table.schema}
            columns = {number: table[name].to_pylist() for number, name in names.items()}
            self._tables[path] = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return self._tables[path]

    def _read_avro(self, location: str) -> list[dict[str, Any]]:
        if location not in self._avro:
            self._avro[location] = list(fastavro.reader(streams.BytesIO(self._io.read(location))))  # type: ignore[arg-type]
        return self._avro[location]

    def referenced(self, document: Mapping[str, Any]) -> set[str]:
        """Return the paths of all files that the metadata and its snapshots refer to, except older metadata files."""
        paths: set[str] = {file["statistics-path"] for key in ("statistics", "partition-statistics") for file in document.get(key) or ()}
        for snapshot in document.get("snapshots") or ():
            paths.add(snapshot["manifest-list"])
            paths.update(manifest["manifest_path"] for manifest in self.manifests(snapshot))
            paths.update(file.path for file in self.live_files(document, snapshot))
        return paths


@dataclass(frozen=True, kw_only=True)
class Recount:
    """The counts that a snapshot's summary must have, from the live files of the snapshot and of its parent (`before`)."""

    files: tuple[LiveFile, ...]
    before: tuple[LiveFile, ...]

    @cached_property
    def totals(self) -> dict[str, int]:
        """The `total-...` keys of the summary."""
        return {
            "total-data-files": len(_of(self.files, DATA)),
            "total-delete-files": len(self.files) - len(_of(self.files, DATA)),
            "total-records": _records(self.files, DATA),
            "total-position-deletes": _records(self.files, POSITION_DELETES),
            "total-equality-deletes": _records(self.files, EQUALITY_DELETES),
            "total-files-size": sum(file.size for file in self.files),
        }

    @cached_property
    def changes(self) -> dict[str, int]:
        """The keys of added and removed files and rows; a summary has no key for a count of 0."""
        old, new = {file.key for file in self.before}, {file.key for file in self.files}
        added, removed = [f for f in self.files if f.key not in old], [f for f in self.before if f.key not in new]
        counts = {
            "added-data-files": len(_of(added, DATA)),
            "deleted-data-files": len(_of(removed, DATA)),
            "added-delete-files": len(added) - len(_of(added, DATA)),
            "removed-delete-files": len(removed) - len(_of(removed, DATA)),
            "added-records": _records(added, DATA),
            "deleted-records": _records(removed, DATA),
            "added-position-deletes": _records(added, POSITION_DELETES),
            "removed-position-deletes": _records(removed, POSITION_DELETES),
            "added-equality-deletes": _records(added, EQUALITY_DELETES),
            "removed-equality-deletes": _records(removed, EQUALITY_DELETES),
            "added-files-size": sum(file.size for file in added),
            "removed-files-size": sum(file.size for file in removed),
        }
        return {key: number for key, number in counts.items() if number}

    def problems(self, summary: Mapping[str, str]) -> Iterator[str]:
        """Yield the counts in which a summary differs."""
        for key, number in self.totals.items():
            if int(summary.get(key, -1)) != number:
                yield f"{key} is {summary.get(key)}, but the files give {number}"
        for key in {*self.changes, *(key for key in summary if key.startswith(("added-", "removed-", "deleted-")))}:
            if key in _COUNTED and int(summary.get(key, 0)) != self.changes.get(key, 0):
                yield f"{key} is {summary.get(key)}, but the files give {self.changes.get(key, 0)}"


_COUNTED = frozenset(
    f"{verb}-{what}"
    for verb in ("added", "removed", "deleted")
    for what in ("data-files", "delete-files", "records", "position-deletes", "equality-deletes", "files-size")
)


def _of(files: Any, content: int) -> list[LiveFile]:
    return [file for file in files if file.content == content]


def _records(files: Any, content: int) -> int:
    return sum(file.records for file in _of(files, content))


def _is_equality_delete_of(file: LiveFile, data: LiveFile) -> bool:
    is_newer = file.content == EQUALITY_DELETES and file.sequence_number > data.sequence_number
    return is_newer and (file.is_global or file.partition == data.partition)
