"""`FileMetadata` and `BlobMetadata`: the contents of a Puffin file's footer, as objects and as JSON.

`puffin_file.py` finds the footer and decompresses it.
Spec: Puffin file format, Footer Payload; Puffin file format, FileMetadata; Puffin file format, BlobMetadata.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from icefloe.errors import InvalidInputError, Problem
from icefloe.spec.puffin.puffin_errors import puffin_footer_error, puffin_format_error

_INT = 2**31
_LONG = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobMetadata:
    """The metadata of one blob: its position in the file (`offset` and the stored `length`, in bytes), and what it was computed from.

    `fields` are field ids; `compression_codec` is None, "lz4" or "zstd". Deletion vectors have -1 for both the snapshot and the sequence number.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetadata:
    """The footer's payload: the blobs, in the footer's order, and the file's properties."""

    blobs: tuple[BlobMetadata, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


def file_metadata_to_json(metadata: FileMetadata) -> bytes:
    """Return the payload as compact JSON in UTF-8, with keys in the order of the specification. Empty optional keys are left out.

    Raises:
        InvalidInputError: UTF-8 cannot encode a text.
    """
    document: dict[str, Any] = {"blobs": [_blob_to_json(blob) for blob in metadata.blobs]}
    if metadata.properties:
        document["properties"] = dict(metadata.properties)
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"a text for a Puffin footer cannot be written in UTF-8: {error}") from error


def _blob_to_json(blob: BlobMetadata) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.compression_codec is not None:
        document["compression-codec"] = blob.compression_codec
    if blob.properties:
        document["properties"] = dict(blob.properties)
    return document


def file_metadata_from_json(payload: bytes, *, path: str, offset: int, first_byte: int, end_byte: int) -> FileMetadata:
    """Parse the payload; unknown keys are ignored.

    Args:
        payload: The bytes.
        path: Location of the file, for errors.
        offset: Byte of the file at which the payload starts.
        first_byte: The first byte of the file that can belong to a blob.
        end_byte: The byte after the last byte that can belong to a blob.

    Raises:
        PuffinFormatError: The payload is not JSON, or violates rules: every problem is listed with its JSON path.
    """
    try:
        document = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise puffin_format_error(path, offset, f"the footer is not JSON in UTF-8: {error}") from error
    reading = _Reading()
    metadata = reading.file(document, first_byte, end_byte)
    if reading.problems or metadata is None:
        raise puffin_footer_error(path, offset, tuple(reading.problems))
    return metadata


class _Reading:
    """A parser of a footer's JSON that collects all problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def note(self, where: str, what: str) -> None:
        self.problems.append(Problem(where=where, what=what))

    def file(self, document: Any, first_byte: int, end_byte: int) -> FileMetadata | None:
        if not isinstance(document, dict):
            self.note("$", "is not an object")
            return None
        blobs = self.require(document, "$", "blobs", _is_list, "a list") or []
        read = [self.blob(blob, f"$.blobs[{index}]", first_byte, end_byte) for index, blob in enumerate(blobs)]
        return FileMetadata(blobs=tuple(blob for blob in read if blob is not None), properties=self.properties(document, "$"))

    def blob(self, document: Any, where: str, first_byte: int, end_byte: int) -> BlobMetadata | None:
        if not isinstance(document, dict):
            self.note(where, "is not an object")
            return None
        before = len(self.problems)
        kind = self.require(document, where, "type", _is_text, "a string")
        fields = self.require(document, where, "fields", _is_int_list, "a list of 32-bit integers")
        longs = [
            self.require(document, where, key, _is_long, "a 64-bit integer")
            for key in ("snapshot-id", "sequence-number", "offset", "length")
        ]
        codec = document.get("compression-codec")
        if codec is not None and not isinstance(codec, str):
            self.note(f"{where}.compression-codec", "is not a string")
        properties = self.properties(document, where)
        if len(self.problems) > before:
            return None
        snapshot_id, sequence_number, offset, length = longs
        if length < 0 or offset < first_byte or offset + length > end_byte:
            self.note(
                where, f"{length} bytes at byte {offset} are not between the magic bytes and the footer, bytes {first_byte} to {end_byte}"
            )
            return None
        return BlobMetadata(
            type=kind,
            fields=tuple(fields),
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
            offset=offset,
            length=length,
            compression_codec=codec,
            properties=properties,
        )

    def require(self, document: dict[str, Any], where: str, key: str, fits: Callable[[Any], bool], what: str) -> Any:
        if key not in document:
            self.note(f"{where}.{key}", "is missing")
            return None
        if not fits(document[key]):
            self.note(f"{where}.{key}", f"is not {what}")
            return None
        return document[key]

    def properties(self, document: dict[str, Any], where: str) -> dict[str, str]:
        properties = document.get("properties")
        if properties is None:
            return {}
        if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
            self.note(f"{where}.properties", "is not an object of strings")
            return {}
        return properties


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_long(value: Any) -> bool:
    return type(value) is int and -_LONG <= value < _LONG


def _is_int_list(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and -_INT <= item < _INT for item in value)
