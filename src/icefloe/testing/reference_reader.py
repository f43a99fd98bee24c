"""A table walked by brute force, from the metadata file down to the rows, by other readers than Icefloe's own: JSON, fastavro and pyarrow.

It is the judge of tests: what a table says it has, file by file and row by row, with none of the code that wrote it. Slow and simple; Parquet only.
What must hold of what it finds is `commit_model.py`.
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

from icefloe.kernel.metadata.json_file import inflated, parsed
from icefloe.kernel.ports import FileIO

Key = tuple[str, int | None]
DELETED = 2  # the status of an entry that is in a manifest to say that its file is gone
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
# Field ids of the columns of position delete files, and of the row id in data files. Spec: Reserved Field IDs.
_PATH, _POS, _ROW_ID = 2147483546, 2147483545, 2147483540


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedFile:
    """One live entry of a snapshot, inheritance applied."""

    content: int
    path: str
    offset: int | None
    length: int | None
    size: int
    records: int
    sequence_number: int
    partition: tuple[int, tuple[tuple[str, Any], ...]]  # the spec's id and the tuple
    is_global: bool  # of a spec without fields
    referenced: str | None
    equality_ids: tuple[int, ...]
    first_row_id: int | None

    @property
    def key(self) -> Key:
        """What tells the file from all others: many deletion vectors share one Puffin file."""
        return (self.path, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedRow:
    """A live row: its values by field id, the data file it lies in, and its row id from version 3 on."""

    values: Mapping[int, Any]
    path: str
    row_id: int | None


class Walk:
    """Reads the tables of one storage. Files never change, so that each is read once."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._documents: dict[str, dict[str, Any]] = {}
        self._avro: dict[str, list[dict[str, Any]]] = {}
        self._tables: dict[str, list[dict[int, Any]]] = {}
        self._live: dict[str, tuple[WalkedFile, ...]] = {}

    def document(self, location: str) -> dict[str, Any]:
        """The JSON of a metadata file."""
        if location not in self._documents:
            content = self._io.read(location)
            self._documents[location] = parsed(inflated(content, location), location)
        return self._documents[location]

    def snapshot(self, document: Mapping[str, Any], snapshot_id: int) -> dict[str, Any]:
        """The JSON of one of the metadata's snapshots."""
        found: dict[str, Any] = next(one for one in document.get("snapshots", ()) if one["snapshot-id"] == snapshot_id)
        return found

    def manifests(self, snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of the snapshot's manifest list."""
        return self._read_avro(snapshot["manifest-list"])

    def live_files(self, document: Mapping[str, Any], snapshot: Mapping[str, Any]) -> tuple[WalkedFile, ...]:
        """The data and delete files that the snapshot holds."""
        key = snapshot["manifest-list"]
        if key not in self._live:
            specs = {spec["spec-id"]: spec["fields"] for spec in document["partition-specs"]}
            self._live[key] = tuple(
                file for manifest in self.manifests(snapshot) for file in self._files_of(manifest, specs[manifest["partition_spec_id"]])
            )
        return self._live[key]

    def _files_of(self, manifest: Mapping[str, Any], fields: list[Any]) -> Iterator[WalkedFile]:
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
            yield WalkedFile(
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

    def rows(self, document: Mapping[str, Any], snapshot: Mapping[str, Any]) -> Iterator[WalkedRow]:
        """The rows that the snapshot holds, deletes applied one by one. Spec: Scan Planning."""
        files = self.live_files(document, snapshot)
        deletes = [file for file in files if file.content != DATA]
        for data in files:
            if data.content != DATA:
                continue
            gone = self._deleted_positions(data, deletes)
            keys = [self._deleted_keys(file) for file in deletes if _is_equality_delete_of(file, data)]
            for position, row in enumerate(self._rows_of(data.path)):
                if position in gone or any(tuple(row.get(number) for number in numbers) in values for numbers, values in keys):
                    continue
                row_id = row.get(_ROW_ID)
                if row_id is None and data.first_row_id is not None:
                    row_id = data.first_row_id + position
                yield WalkedRow(values=row, path=data.path, row_id=row_id)

    def _deleted_positions(self, data: WalkedFile, deletes: list[WalkedFile]) -> set[int]:
        applying = [file for file in deletes if file.content == POSITION_DELETES and file.sequence_number >= data.sequence_number]
        vectors = [file for file in applying if file.offset is not None and file.referenced == data.path]
        if vectors:
            [vector] = vectors  # a data file has one at most
            return self._vector(vector)
        gone: set[int] = set()
        for file in applying:
            if file.offset is None and file.partition == data.partition and file.referenced in (None, data.path):
                gone.update(row[_POS] for row in self._rows_of(file.path) if row[_PATH] == data.path)
        return gone

    def _deleted_keys(self, file: WalkedFile) -> tuple[tuple[int, ...], set[tuple[Any, ...]]]:
        return file.equality_ids, {tuple(row.get(number) for number in file.equality_ids) for row in self._rows_of(file.path)}

    def _vector(self, file: WalkedFile) -> set[int]:
        assert file.offset is not None and file.length is not None  # noqa: PT018, S101  the caller asked for vectors
        blob = self._io.read(file.path)[file.offset : file.offset + file.length]
        # Four bytes of length, four of the magic, the bitmap, four of the checksum. Spec: Puffin, deletion-vector-v1.
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

    def uids_in(self, path: str, field_id: int) -> list[Any]:
        """The values of one column of a data file, deleted rows and all."""
        return [row.get(field_id) for row in self._rows_of(path)]

    def referenced(self, document: Mapping[str, Any]) -> set[str]:
        """Every file that the metadata and each of its snapshots name, but for older metadata files."""
        named: set[str] = {one["statistics-path"] for key in ("statistics", "partition-statistics") for one in document.get(key) or ()}
        for snapshot in document.get("snapshots") or ():
            named.add(snapshot["manifest-list"])
            named.update(manifest["manifest_path"] for manifest in self.manifests(snapshot))
            named.update(file.path for file in self.live_files(document, snapshot))
        return named


@dataclass(frozen=True, kw_only=True)
class Recount:
    """What a snapshot's summary must say, counted from its own files and its parent's."""

    files: tuple[WalkedFile, ...]
    before: tuple[WalkedFile, ...]

    @cached_property
    def totals(self) -> dict[str, int]:
        """The `total-...` keys."""
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
        """The keys of what came and went; one that is 0 is left out of a summary."""
        old, new = {file.key for file in self.before}, {file.key for file in self.files}
        added, gone = [f for f in self.files if f.key not in old], [f for f in self.before if f.key not in new]
        found = {
            "added-data-files": len(_of(added, DATA)),
            "deleted-data-files": len(_of(gone, DATA)),
            "added-delete-files": len(added) - len(_of(added, DATA)),
            "removed-delete-files": len(gone) - len(_of(gone, DATA)),
            "added-records": _records(added, DATA),
            "deleted-records": _records(gone, DATA),
            "added-position-deletes": _records(added, POSITION_DELETES),
            "removed-position-deletes": _records(gone, POSITION_DELETES),
            "added-equality-deletes": _records(added, EQUALITY_DELETES),
            "removed-equality-deletes": _records(gone, EQUALITY_DELETES),
            "added-files-size": sum(file.size for file in added),
            "removed-files-size": sum(file.size for file in gone),
        }
        return {key: number for key, number in found.items() if number}

    def problems(self, summary: Mapping[str, str]) -> Iterator[str]:
        """Where a summary says something else."""
        for key, number in self.totals.items():
            if int(summary.get(key, -1)) != number:
                yield f"{key} is {summary.get(key)}, and a recount finds {number}"
        for key in {*self.changes, *(key for key in summary if key.startswith(("added-", "removed-", "deleted-")))}:
            if key in _COUNTED and int(summary.get(key, 0)) != self.changes.get(key, 0):
                yield f"{key} is {summary.get(key)}, and a recount finds {self.changes.get(key, 0)}"


_COUNTED = frozenset(
    f"{verb}-{what}"
    for verb in ("added", "removed", "deleted")
    for what in ("data-files", "delete-files", "records", "position-deletes", "equality-deletes", "files-size")
)


def _of(files: Any, content: int) -> list[WalkedFile]:
    return [file for file in files if file.content == content]


def _records(files: Any, content: int) -> int:
    return sum(file.records for file in _of(files, content))


def _is_equality_delete_of(file: WalkedFile, data: WalkedFile) -> bool:
    is_newer = file.content == EQUALITY_DELETES and file.sequence_number > data.sequence_number
    return is_newer and (file.is_global or file.partition == data.partition)
