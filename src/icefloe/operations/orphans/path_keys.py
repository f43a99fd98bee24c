"""`PathKeys`: the keys by which a listed file is compared with the files that a table needs.

A table is written by several programs, each with its own spelling of a location: other schemes of one store, doubled slashes, percent-encoded names,
symbolic links above a local folder, other forms of Unicode. A file is deleted if no spelling of it is referenced, so keys of different spellings are equal
wherever it is possible that they name one file. Two files with the same key are both kept. Spec: File Locations in Metadata.
"""

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import InvalidInputError
from icefloe.io.locations import STORE_OF_SCHEME, local_path, scheme_of

# Java's default of `equal_schemes`.
EQUAL_SCHEMES: Mapping[str, str] = {"s3n,s3a": "s3"}
# Folders whose keys are remembered.
_REMEMBERED = 100_000
_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
# A host and port of a local file, or anything else that is no path.
_LOCAL_SCHEME = "file"


class PrefixMismatch(StrEnum):
    """The rule for a file whose path is referenced under another scheme or authority."""

    ERROR = "ERROR"
    IGNORE = "IGNORE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Prefix:
    """The scheme and the authority of a location; an empty one of a referenced file is equal to any."""

    scheme: str
    authority: str

    def is_of(self, listed: "Prefix") -> bool:
        """Return True if a file that is referenced with this prefix can be the listed one."""
        return self.scheme in ("", listed.scheme) and self.authority in ("", listed.authority)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


@dataclass(frozen=True, slots=True)
class PathKeys:
    """Keys of locations.

    Attributes:
        schemes: The scheme that each scheme is equal to, in lower case.
        authorities: The authority that each authority is equal to, in lower case.
    """

    schemes: Mapping[str, str] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)
    # Links are resolved once for each folder, so that a link that changes meanwhile gives one folder one key.
    _folders: dict[str, tuple[str, Prefix]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, equal_schemes: Mapping[str, str], equal_authorities: Mapping[str, str]) -> "PathKeys":
        """Return keys with the equal schemes and authorities of Java's procedure, whose names are separated by commas.

        Raises:
            InvalidInputError: A name is empty.
        """
        schemes = _flat({**EQUAL_SCHEMES, **equal_schemes}, "equal_schemes")
        return cls(schemes, _flat(equal_authorities, "equal_authorities"))

    def folder(self, folder: str) -> tuple[str, Prefix]:
        """Return the key of a folder's path, and the prefix."""
        known = self._folders.get(folder)
        if known is None:
            if len(self._folders) >= _REMEMBERED:
                self._folders.clear()
            known = self._folders[folder] = self._folder(folder)
        return known

    def file(self, location: str) -> tuple[str, Prefix]:
        """Return the key of a file, and its prefix."""
        folder, slash, name = location.rpartition("/")
        if not slash or name in ("", ".", ".."):
            key, prefix = self.folder(location)
            return key, prefix
        key, prefix = self.folder(folder or "/")
        return f"{key}/{_in_any_form(name)}", prefix

    def files(self, folder: str, names: Sequence[str]) -> tuple[list[str], Prefix]:
        """Return the keys of the files of a folder, and their prefix."""
        key, prefix = self.folder(folder)
        return [f"{key}/{_in_any_form(name)}" for name in names], prefix

    def paths(self, locations: Any) -> Iterable[tuple[list[str], Prefix]]:
        """Yield the keys of an Arrow array of locations by their prefix, in no order."""
        if isinstance(locations, pa.ChunkedArray):
            locations = locations.combine_chunks()
        plain = pc.match_substring_regex(
            locations, r"^[^%\x80-\x{10FFFF}]*[^/%\x80-\x{10FFFF}]/([^/.%\x80-\x{10FFFF}][^/%\x80-\x{10FFFF}]*)$"
        )
        keys: dict[Prefix, list[str]] = {}
        for location in locations.filter(pc.invert(plain)).to_pylist():
            key, prefix = self.file(location)
            keys.setdefault(prefix, []).append(key)
        parts = pc.split_pattern(locations.filter(plain), "/", max_splits=1, reverse=True).flatten()
        folders, names = parts[::2].dictionary_encode(), parts[1::2]
        known = [self.folder(folder) for folder in folders.dictionary.to_pylist()]
        of_files = pc.take(pa.array([key for key, _ in known], pa.string()), folders.indices)
        joined = pc.binary_join_element_wise(of_files, names, "/")
        prefixes = list(dict.fromkeys(prefix for _, prefix in known))
        if len(prefixes) == 1:
            keys.setdefault(prefixes[0], []).extend(joined.to_pylist())
        else:
            number = {prefix: place for place, prefix in enumerate(prefixes)}
            of_file = pc.take(pa.array([number[prefix] for _, prefix in known], pa.int32()), folders.indices)
            for prefix, place in number.items():
                keys.setdefault(prefix, []).extend(joined.filter(pc.equal(of_file, place)).to_pylist())
        return keys_by_prefix(keys)

    def _folder(self, folder: str) -> tuple[str, Prefix]:
        scheme, authority, path = self._parts(folder)
        return posixpath.normpath("/" + _in_any_form(path).lstrip("/")).rstrip("/"), Prefix(scheme, authority)

    def _parts(self, folder: str) -> tuple[str, str, str]:
        try:
            is_local = scheme_of(folder) == _LOCAL_SCHEME
            if is_local and not (folder[:5].lower() != "file:" and _PREFIX.match(folder)):
                return self._scheme(_LOCAL_SCHEME), "", os.path.realpath(local_path(folder))
        except (InvalidInputError, OSError, ValueError):
            pass
        match = _PREFIX.fullmatch(folder)
        scheme, authority, path = (match[1].lower(), (match[2] or "").lower(), match[3]) if match else ("", "", folder)
        if scheme == "memory":
            authority, path = "", f"{authority}{path}"
        return self._scheme(scheme), self.authorities.get(authority, authority), path

    def _scheme(self, scheme: str) -> str:
        scheme = self.schemes.get(scheme, scheme)
        scheme = STORE_OF_SCHEME.get(scheme, scheme)
        return self.schemes.get(scheme, scheme)


def keys_by_prefix(keys: Mapping[Prefix, list[str]]) -> list[tuple[list[str], Prefix]]:
    """Return the lists of keys that are not empty, each with its prefix."""
    return [(of_prefix, prefix) for prefix, of_prefix in keys.items() if of_prefix]


def _in_any_form(text: str) -> str:
    """Return text that is equal for all forms of one name: percent-encoded or not, composed characters or not."""
    if "%" in text:
        text = unquote(text)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _flat(equal: Mapping[str, str], argument: str) -> dict[str, str]:
    flat: dict[str, str] = {}
    for names, value in equal.items():
        for name in str(names).split(","):
            if not name.strip() or not str(value).strip():
                raise InvalidInputError(f"{argument} has an empty name in {names!r}", next_step="write it as {'a,b': 'c'}")
            flat[name.strip().lower()] = str(value).strip().lower()
    return flat
