"""`snapshot_table`: make a new table that refers to the files of a folder or of a table in another format. The files stay where they are, with their owner.

`existing_files.py` lists the files and reads their footers. Spec: Column Projection; Partitioning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_base import Name
from icefloe.errors import InvalidInputError
from icefloe.io.locations import folders_of
from icefloe.migration.existing_files import TableOfFilesResult, commit_files, existing_files, files_to_add, new_table_of

# Properties of a table whose files belong to another table: no operation of this table deletes files.
OF_SNAPSHOTS = {"gc.enabled": "false", "snapshot": "true"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SnapshotTableResult(TableOfFilesResult):
    """The result of `snapshot_table`."""

    action = "snapshot"


def snapshot_table(
    catalog: Catalog,
    source: str | Sequence[str],
    name: Name,
    *,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    ignore_missing_files: bool = False,
    dry_run: bool = False,
) -> SnapshotTableResult:
    """Create a table over existing Parquet or ORC files, in one commit. No file is copied or changed.

    The table never deletes files of the source: it has the properties `gc.enabled=false` and `snapshot=true`. Files of its own are in another folder.

    Args:
        catalog: The catalog of the new table.
        source: A folder, whose partition columns are in its folders `name=value`; or the folders of a Spark table.
        name: The name of the new table.
        location: The folder of the new table; by default the catalog chooses it.
        properties: Properties of the new table.
        ignore_missing_files: Whether folders that do not exist count as empty.
        dry_run: Check the files, and create nothing.

    Returns:
        The numbers of files, rows and bytes.

    Raises:
        NoSuchFileError: The folder does not exist.
        DataFileFormatError: A file is damaged, or is neither Parquet nor ORC.
        SchemaMismatchError: Files have different columns or partition columns, or columns with field ids.
        InvalidInputError: The folder of the new table would be inside the source, or the source inside that folder.
        TableAlreadyExistsError, NoSuchNamespaceError: The name is taken, or its namespace does not exist.
    """
    existing = existing_files(catalog, source, ignore_missing=ignore_missing_files)
    transaction = new_table_of(catalog, name, existing, location, properties or {}, OF_SNAPSHOTS)
    metadata = transaction.base
    _refuse_overlap(existing.folders, metadata.location)
    full_name = ".".join(catalog.resolve_name(name))
    added = files_to_add(transaction, existing.files)
    if not dry_run:
        commit_files(transaction, added)
    return SnapshotTableResult(
        dry_run=dry_run,
        table=full_name,
        location=metadata.location,
        imported_files=len(added),
        imported_bytes=sum(file.file_size_in_bytes for file in added),
        imported_records=sum(file.record_count for file in added),
        schema=existing.schema,
        partition_columns=existing.described.partition_columns,
    )


def _refuse_overlap(folders: Sequence[str], location: str) -> None:
    """Refuse a location that overlaps with the source, because files of later writes would be part of both. Raises `InvalidInputError`."""
    own = folders_of([location])
    if not own or any(place.overlaps(own[0]) for place in folders_of(folders)):
        raise InvalidInputError(
            f"the new table would be at {location}, and the files of its source are at {folders[0]}: one is within the other",
            path=location,
            next_step="pass another location",
        )
