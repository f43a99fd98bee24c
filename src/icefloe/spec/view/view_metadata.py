"""`ViewMetadata`: the content of a view's metadata file, as an immutable value, and the rules that apply to it.

`view_metadata_json.py` has its JSON, and `view_updates.py` its changes. Spec: View spec, View Metadata.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from icefloe.errors import MetadataFormatError, Problem
from icefloe.spec.metadata.entry_kinds import SCHEMAS
from icefloe.spec.metadata.raw_entries import RawEntries
from icefloe.spec.schema.schema import Schema
from icefloe.spec.view.view_version import VERSION_LOG, VERSIONS, VersionLogEntry, ViewVersion

VIEW_FORMAT_VERSION = 1  # the only format version of views. Spec: View spec, View Metadata (`format-version`)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMetadata:
    """The content of one metadata file of a view. A plain sequence that is passed for a list becomes a `RawEntries`."""

    view_uuid: str
    location: str
    schemas: RawEntries[Schema]
    current_version_id: int
    versions: RawEntries[ViewVersion]
    version_log: RawEntries[VersionLogEntry] = field(default_factory=lambda: RawEntries(VERSION_LOG, ()))
    properties: Mapping[str, str] = field(default_factory=dict)
    format_version: int = VIEW_FORMAT_VERSION
    unknown: Mapping[str, msgspec.Raw] = field(default_factory=dict)  # unknown top-level keys, which are kept when the metadata is written

    def __post_init__(self) -> None:
        if not isinstance(self.schemas, RawEntries):
            object.__setattr__(self, "schemas", RawEntries.of(SCHEMAS, self.schemas))
        if not isinstance(self.versions, RawEntries):
            object.__setattr__(self, "versions", RawEntries.of(VERSIONS, self.versions))
        if not isinstance(self.version_log, RawEntries):
            object.__setattr__(self, "version_log", RawEntries.of(VERSION_LOG, self.version_log))

    def version(self) -> ViewVersion:
        """Return the current version.

        Raises:
            MetadataFormatError: The version does not exist.
        """
        version = self.versions.get(self.current_version_id)
        if version is None:
            raise MetadataFormatError(f"the view's metadata has no version {self.current_version_id}")
        return version

    def schema(self) -> Schema:
        """Return the columns of the current version.

        Raises:
            MetadataFormatError: The schema does not exist.
        """
        schema_id = self.version().schema_id
        schema = self.schemas.get(schema_id)
        if schema is None:
            raise MetadataFormatError(f"the view's metadata has no schema {schema_id}")
        return schema


def view_problems(view: ViewMetadata) -> Iterator[Problem]:
    """Yield the violations of rules in the metadata. Every version is decoded for this."""
    if view.versions.position(view.current_version_id) is None:
        yield Problem(where="$.current-version-id", what=f"there is no version {view.current_version_id} in versions")
    for position, version in enumerate(view.versions):
        where = f"$.versions[{position}]"
        if view.schemas.position(version.schema_id) is None:
            yield Problem(where=f"{where}.schema-id", what=f"there is no schema {version.schema_id} in schemas")
        yield from dialect_problems(version, where)
    for kind, entries in ((VERSIONS, view.versions), (SCHEMAS, view.schemas)):
        if len(entries.ids()) < len(entries):
            yield Problem(where=f"$.{kind.key}", what=f"a {kind.id_key} is repeated")


def dialect_problems(version: ViewVersion, where: str) -> Iterator[Problem]:
    """Yield a problem for each dialect with more than one SQL representation in a version. Spec: View spec, SQL representation."""
    for dialect in sorted({dialect for dialect in version.dialects if version.dialects.count(dialect) > 1}):
        yield Problem(where=f"{where}.representations", what=f"has several SQL representations in dialect {dialect}")
