"""Changes of a table's properties, format version and location, as the updates that make them.

What each property may be is `kernel/metadata/table_properties.py`. Spec: Table Metadata Fields (`properties`).
"""

from collections.abc import Mapping, Sequence

from icefloe.errors import InvalidInputError, InvalidPropertyError
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.requirement import AssertTableUUID, Requirement
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_updates import AssignUUID, RemoveProperties, SetLocation, SetProperties, UpgradeFormatVersion


def property_requirements(base: TableMetadata) -> tuple[Requirement, ...]:
    """Properties may be set beside any other change of the same table."""
    return (AssertTableUUID(base.table_uuid),)


def set_property_updates(base: TableMetadata, given: Mapping[str, object], new_uuid: str) -> tuple[Update, ...]:
    """The updates that set these properties; none where they are so already. `format-version` upgrades the table instead of being kept.

    `new_uuid` is as in `version_updates`.

    Raises:
        InvalidPropertyError: a value is no text, number or truth value, or not what its property may be; or metadata says it elsewhere.
    """
    texts = table_properties.property_texts(given)
    if derived := sorted(texts.keys() & table_properties.DERIVED):
        raise InvalidPropertyError(
            f"{', '.join(derived)}: not a property that can be set; the table's metadata says it, and changes it with the table",
            next_step="leave it out",
        )
    table_properties.check_properties(texts)
    version = table_properties.FORMAT_VERSION.read(texts) if table_properties.FORMAT_VERSION.name in texts else base.format_version
    changed = {
        name: text for name, text in texts.items() if name != table_properties.FORMAT_VERSION.name and base.properties.get(name) != text
    }
    updates = version_updates(base, version, new_uuid)
    return (*updates, SetProperties(changed)) if changed else updates


def remove_property_updates(base: TableMetadata, names: Sequence[str]) -> tuple[Update, ...]:
    """The updates that remove these properties; names that are not there are no error."""
    there = tuple(name for name in names if name in base.properties)
    return (RemoveProperties(there),) if there else ()


def version_updates(base: TableMetadata, format_version: int, new_uuid: str) -> tuple[Update, ...]:
    """The updates that raise the format version; none where the table has it.

    `new_uuid` is the identity for a v1 table that has none: later versions require one. Spec: Appendix E, Version 2.
    """
    if format_version == base.format_version:
        return ()
    upgrade = UpgradeFormatVersion(format_version)
    return (upgrade,) if base.table_uuid is not None else (AssignUUID(new_uuid), upgrade)


def location_updates(base: TableMetadata, location: str) -> tuple[Update, ...]:
    """The update that moves the table's folder; none where it is there already. Raises `InvalidInputError` for an empty location."""
    if not location.strip("/ "):
        raise InvalidInputError(f"{location!r} is no location for a table", next_step="pass a folder's path or URI")
    return () if location.rstrip("/") == base.location.rstrip("/") else (SetLocation(location),)
