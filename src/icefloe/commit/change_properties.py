"""Changes of the properties, the format version and the location of a table, as metadata updates. JAVA: UpdateProperties, UpdateLocation.

The valid values of each property are in `spec/metadata/table_properties.py`. Spec: Table Metadata Fields (`properties`).
"""

from collections.abc import Mapping, Sequence

from icefloe.errors import InvalidInputError, InvalidPropertyError
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.property_kinds import property_texts
from icefloe.spec.metadata.requirement import AssertTableUUID, Requirement
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import AssignUUID, RemoveProperties, SetLocation, SetProperties, UpgradeFormatVersion


def property_requirements(base: TableMetadata) -> tuple[Requirement, ...]:
    """Return the requirements of a change of properties: only that the table is the same, since changes of properties are compatible with all other changes."""
    return (AssertTableUUID(base.table_uuid),)


def set_property_updates(base: TableMetadata, properties: Mapping[str, object], new_uuid: str) -> tuple[Update, ...]:
    """Return the updates that set properties; empty if all have these values already.

    Args:
        base: the metadata of the table.
        properties: values by name; `format-version` is not stored, but upgrades the table.
        new_uuid: see `version_updates`.

    Raises:
        InvalidPropertyError: a value is not a string, number or boolean, or is invalid for its property; or the property cannot be set, because it is computed
            from other metadata.
    """
    texts = property_texts(properties)
    if derived := sorted(texts.keys() & table_properties.DERIVED):
        raise InvalidPropertyError(
            f"{', '.join(derived)}: not a property that can be set; it is derived from the table's metadata",
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
    """Return the updates that remove properties; names that the table does not have are skipped."""
    present = tuple(name for name in names if name in base.properties)
    return (RemoveProperties(present),) if present else ()


def version_updates(base: TableMetadata, format_version: int, new_uuid: str) -> tuple[Update, ...]:
    """Return the updates that upgrade the format version; empty if the table has it already.

    `new_uuid` becomes the UUID of a version 1 table that has none, because later versions require a UUID. Spec: Appendix E, Version 2.
    """
    if format_version == base.format_version:
        return ()
    upgrade = UpgradeFormatVersion(format_version)
    return (upgrade,) if base.table_uuid is not None else (AssignUUID(new_uuid), upgrade)


def location_updates(base: TableMetadata, location: str) -> tuple[Update, ...]:
    """Return the update that sets the location of the table; empty if the location is unchanged.

    Raises:
        InvalidInputError: the location is empty.
    """
    if not location.strip("/ "):
        raise InvalidInputError(f"{location!r} is not a valid table location", next_step="pass the path or URI of a folder")
    return () if location.rstrip("/") == base.location.rstrip("/") else (SetLocation(location),)
