"""`PathKeys`: the keys with which listed files are compared with the files that a table needs.

Programs that write a table can spell the same location in different ways: with another scheme of the same store, doubled slashes, percent-encoded names,
symbolic links above a local folder, or other forms of Unicode. A file may be deleted only if no spelling of its location is referenced. So two spellings have
the same key whenever they may be the same file. If two different files have the same key and one is referenced, both are kept. Spec: File Locations in
Metadata.
"""

import os
import posixpath
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import unquote

from icefloe.errors import InvalidInputError
from icefloe.io.locations import STORE_OF_SCHEME, local_path, scheme_of

# Java's default of `equal_schemes`.
EQUAL_SCHEMES: Mapping[str, str] = {"s3n,s3a": "s3"}
# The number of folders whose keys are cached.
_REMEMBERED = 100_000
_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
# Locations with a host and port in front of a local path, and other locations that are not paths.
_LOCAL_SCHEME = "file"


class PrefixMismatch(StrEnum):
    """The rule for a file whose path is referenced under another scheme or authority."""

    ERROR = "ERROR"
    IGNORE = "IGNORE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Prefix:
    """The scheme and the authority of a location. If one of them is empty in the location of a referenced file, it is equal to any."""

    scheme: str
    authority: str

    def is_of(self, listed: "Prefix") -> bool:
        """Return whether a file that is referenced with this prefix may be one that is listed with the prefix `listed`."""
        return self.scheme in ("", listed.scheme) and self.authority in ("", listed.authority)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


@dataclass(frozen=True, slots=True)
class PathKeys:
    """Returns the keys by which locations are compared: equal keys for locations that may be the same file.

    Attributes:
        schemes: By scheme, another scheme that means the same storage; both in lower case.
        authorities: By authority, another authority that means the same storage; both in lower case.
    """

    schemes: Mapping[str, str] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)
    # Links are resolved once for each folder, so that a folder has only one key even if a link changes meanwhile.
    _folders: dict[str, tuple[str, Prefix]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, equal_schemes: Mapping[str, str], equal_authorities: Mapping[str, str]) -> "PathKeys":
        """Create an object from the arguments `equal_schemes` and `equal_authorities` of a clean-up. The keys of the mappings are names separated by commas.

        An authority that is mapped to an empty text is the same as none.

        Raises:
            InvalidInputError: A name is empty.
        """
        schemes = _flat({**EQUAL_SCHEMES, **equal_schemes}, "equal_schemes")
        return cls(schemes, _flat(equal_authorities, "equal_authorities", may_be_none=True))

    def file(self, location: str) -> tuple[str, Prefix]:
        """Return the key of a file's location, and its prefix (scheme and authority)."""
        folder, slash, name = location.rpartition("/")
        if not slash or name in ("", ".", ".."):
            return self._folder(location)
        key, prefix = self._folder(folder or "/")
        return f"{key}/{_in_any_form(name)}", prefix

    def _folder(self, folder: str) -> tuple[str, Prefix]:
        """Return the key of a folder's location, and its prefix (scheme and authority)."""
        key_and_prefix = self._folders.get(folder)
        if key_and_prefix is None:
            if len(self._folders) >= _REMEMBERED:
                self._folders.clear()
            scheme, authority, path = self._parts(folder)
            key = posixpath.normpath("/" + _in_any_form(path).lstrip("/")).rstrip("/")
            key_and_prefix = self._folders[folder] = key, Prefix(scheme, authority)
        return key_and_prefix

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
        scheme, authority = self._scheme(scheme), self.authorities.get(authority, authority)
        # A file of a host that is this one, by `authorities`, has the key of a local file, for which links are resolved.
        return scheme, authority, os.path.realpath(path) if (scheme, authority) == (_LOCAL_SCHEME, "") and path.startswith("/") else path

    def _scheme(self, scheme: str) -> str:
        scheme = self.schemes.get(scheme, scheme)
        scheme = STORE_OF_SCHEME.get(scheme, scheme)
        return self.schemes.get(scheme, scheme)


def _in_any_form(text: str) -> str:
    """Return a text that is the same for all spellings of a name: percent-encoded or not, with composed or decomposed Unicode characters."""
    if "%" in text:
        text = unquote(text)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _flat(equal: Mapping[str, str], argument: str, *, may_be_none: bool = False) -> dict[str, str]:
    flat: dict[str, str] = {}
    for names, value in equal.items():
        for name in str(names).split(","):
            if not name.strip() or not (str(value).strip() or may_be_none):
                raise InvalidInputError(f"{argument} has an empty name in {names!r}", next_step="write it as {'a,b': 'c'}")
            flat[name.strip().lower()] = str(value).strip().lower()
    return flat
