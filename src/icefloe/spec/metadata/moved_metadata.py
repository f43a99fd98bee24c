"""The metadata file of a copied table: the same JSON, with unknown fields, and with replaced paths.

Spec: Table Metadata Fields; Paths in Metadata.
"""

from collections.abc import Collection
from typing import Any

import msgspec

from icefloe.spec.metadata.json_file import deflate, inflate, parse_json
from icefloe.spec.path_prefix import PathPrefix

# Properties whose values are folders of the table.
PATH_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def moved_metadata(content: bytes, path: str, prefix: PathPrefix, missing_versions: Collection[str]) -> bytes:
    """Return the bytes of a metadata file with the paths of the copy. They are compressed if `content` is.

    Args:
        content: The bytes of the metadata file, which `metadata_reader.py` has read without an error.
        path: Its location, for errors.
        prefix: The prefix to replace.
        missing_versions: Locations of older metadata files that no longer exist, which are left out of the copy's log.

    Raises:
        MetadataFormatError: The file is damaged.
        InvalidInputError: A path is not below the prefix.
    """
    text = inflate(content, path)
    document = parse_json(text, path)
    document["location"] = prefix.move(document["location"])
    properties = document.get("properties") or {}
    properties |= {name: prefix.move(properties[name]) for name in PATH_PROPERTIES if _is_absolute(properties.get(name, ""))}
    for snapshot in document.get("snapshots") or ():
        _move(snapshot, "manifest-list", prefix)
        if "manifests" in snapshot:
            snapshot["manifests"] = [prefix.move(manifest) for manifest in snapshot["manifests"]]
    for name in ("statistics", "partition-statistics"):
        for file in document.get(name) or ():
            _move(file, "statistics-path", prefix)
    log = [entry for entry in document.get("metadata-log") or () if entry["metadata-file"] not in missing_versions]
    for entry in log:
        _move(entry, "metadata-file", prefix)
    if "metadata-log" in document:
        document["metadata-log"] = log
    moved = msgspec.json.encode(document)
    return moved if text is content else deflate(moved)


def _is_absolute(path: str) -> bool:
    """Return whether a folder is an absolute location, not one relative to the table's location. Spec: Appendix F, Path Construction."""
    return path.startswith("/") or "://" in path or path.lower().startswith("file:")


def _move(holder: dict[str, Any], name: str, prefix: PathPrefix) -> None:
    if name in holder:
        holder[name] = prefix.move(holder[name])
