"""Parsing and serialization of a view's metadata file. Every problem of a file is reported with its JSON path. No file is opened here.

Spec: View spec, View Metadata; View spec, Overview; View spec, Appendix A.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from icefloe.errors import MetadataFormatError, Problem, UnsupportedFormatVersionError
from icefloe.spec.metadata.document_validation import list_problems
from icefloe.spec.metadata.entry_kinds import SCHEMAS
from icefloe.spec.metadata.json_file import deflate, inflate, parse_json, top_level
from icefloe.spec.metadata.raw_entries import EntryKind, RawEntries
from icefloe.spec.schema.json_shape import Key, a_string, an_array, an_int, object_problems, strings_by_name
from icefloe.spec.view.view_metadata import VIEW_FORMAT_VERSION, ViewMetadata, view_problems
from icefloe.spec.view.view_version import VERSION_LOG, VERSIONS

_KEYS = (
    Key("view-uuid", a_string),
    Key("format-version", an_int),
    Key("location", a_string),
    Key("schemas", an_array),
    Key("current-version-id", an_int),
    Key("versions", an_array),
    Key("version-log", an_array),
    Key("properties", strings_by_name, required=False),
)
_KNOWN = frozenset(key.name for key in _KEYS)


def read_view_metadata(content: bytes, path: str) -> ViewMetadata:
    """Parse the bytes of a view's metadata file.

    Args:
        content: The bytes, compressed with gzip or not.
        path: Location of the file, for messages.

    Raises:
        MetadataFormatError: The bytes are damaged or violate the format. The message has the byte offset, or every problem with its JSON path.
        UnsupportedFormatVersionError: The format version is not 1.
    """
    text = inflate(content, path)
    raws = top_level(text, path)
    document = parse_json(text, path)
    _check_version(document, path)
    problems = list(object_problems(document, "$", _KEYS))
    for kind in (SCHEMAS, VERSIONS, VERSION_LOG):
        problems += list_problems(document.get(kind.key), kind)
    if not problems:
        view = ViewMetadata(
            view_uuid=document["view-uuid"],
            location=document["location"],
            schemas=_entries(raws, SCHEMAS, path),
            current_version_id=document["current-version-id"],
            versions=_entries(raws, VERSIONS, path),
            version_log=_entries(raws, VERSION_LOG, path),
            properties=document.get("properties") or {},
            unknown={key: raw for key, raw in raws.items() if key not in _KNOWN},
        )
        problems = list(view_problems(view))
    if problems:
        raise MetadataFormatError("the view's metadata file violates the format", path=path, problems=problems)
    return view


def write_view_metadata(view: ViewMetadata, *, gzip: bool = False) -> bytes:
    """Return the bytes of the metadata file. Unchanged list entries that were read from a file are written with their original bytes."""
    text = msgspec.json.encode(view_to_json(view))
    return deflate(text) if gzip else text


def view_to_json(view: ViewMetadata) -> dict[str, Any]:
    """Return the top level of the metadata file, in Java's order. The entries of its lists are `msgspec.Raw`.

    Spec: View spec, View Metadata.
    """
    document: dict[str, Any] = {
        "view-uuid": view.view_uuid,
        "format-version": view.format_version,
        "location": view.location,
        "properties": dict(view.properties),
        "schemas": view.schemas.raws,
        "current-version-id": view.current_version_id,
        "versions": view.versions.raws,
        "version-log": view.version_log.raws,
    }
    return document | dict(view.unknown)


def _entries(raws: Mapping[str, msgspec.Raw], kind: EntryKind[Any], path: str) -> RawEntries[Any]:
    return RawEntries(kind, msgspec.json.decode(raws[kind.key], type=list[msgspec.Raw]), path)


def _check_version(document: Mapping[str, Any], path: str) -> None:
    version = document.get("format-version")
    if an_int(version) is None and version != VIEW_FORMAT_VERSION:
        raise UnsupportedFormatVersionError(
            f"the view has format version {version}; Icefloe reads and writes version {VIEW_FORMAT_VERSION}",
            path=path,
            next_step="read the view with the program that wrote it",
        )
    if version is None:
        problem = Problem(where="$.format-version", what=f"is required, and must be {VIEW_FORMAT_VERSION}")
        raise MetadataFormatError("the file has no version of the view format", path=path, problems=[problem])
