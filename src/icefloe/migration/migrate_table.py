"""`migrate_table`: make an Iceberg table in place from a folder of Parquet or ORC files, or from a table of Spark's session catalog.

No file is copied: the files become the data files of the new table. A Spark table stays as a backup with a new name. It is made external first, so that its
catalog neither moves nor deletes the files. The steps are ordered so that there is only a short time in which no table has the name: footers are read first,
then the source is renamed, its folders are listed once more, and the new table is committed. If the commit fails, the source gets its name and type back.
Spec: Column Projection; Partitioning; Optimistic Concurrency.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_base import Name
from icefloe.catalog.catalog_transaction import CreateTableTransaction
from icefloe.catalog.new_namespace import NewNamespace
from icefloe.errors import (
    CommitConflictError,
    CommitUnknownError,
    EngineError,
    IcefloeError,
    InvalidInputError,
    LocationNotAllowedError,
    NotFoundError,
    Problem,
)
from icefloe.formatting import count_text
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.file_tree import FolderFiles, FolderPart, HiddenNames, list_part
from icefloe.io.locations import LocationPolicy, join, place_of_file, place_of_folder, qualify
from icefloe.migration.existing_files import (
    ExistingFiles,
    SourceFolders,
    SourceTable,
    TableOfFilesResult,
    commit_files,
    existing_files,
    files_to_add,
    new_table_of,
)
from icefloe.operations.expiry.deletion_scope import folders_of_table
from icefloe.operations.orphans.orphan_search import metadata_among
from icefloe.operations.orphans.referenced_files import METADATA_FOLDER
from icefloe.operations.own_location import holds_warehouse
from icefloe.spec.manifest.data_file import DataFile
from icefloe.stores.catalog_store import other_tables

LOG = logging.getLogger(__name__)
# The property by which Java identifies a migrated table, and the suffix of the backup's name.
OF_MIGRATED = {"migrated": "true"}
BACKUP_SUFFIX = "_BACKUP_"
# Names of manifests and manifest lists, which a killed migration may have left in the folder.
_MANIFEST_NAME = re.compile(r"(snap-[^/]*|[^/]*-m\d+)\.avro")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MigrateTableResult(TableOfFilesResult):
    """The result of a migration.

    Attributes:
        outside_files: The number of migrated files outside of the table's folder. The table reads these files, but never deletes them.
        backup: The new name of the source table; empty if it was dropped, or if the source is a folder.
    """

    action = "migrate"

    outside_files: int = 0
    backup: str = ""

    @property
    def migrated_files(self) -> int:
        """The number of data files that were migrated."""
        return self.imported_files

    @property
    def migrated_bytes(self) -> int:
        """The bytes of the data files that were migrated."""
        return self.imported_bytes

    @property
    def migrated_records(self) -> int:
        """The rows of the data files that were migrated."""
        return self.imported_records

    def _more_facts(self) -> Sequence[tuple[str, str]]:
        outside = [("outside", f"{count_text(self.outside_files, 'file')} not in the folder: read, and never deleted")]
        return [*(outside if self.outside_files else []), *([("backup", self.backup)] if self.backup else [])]


def migrate_table(
    catalog: Catalog,
    source: str | SourceFolders,
    name: Name | None = None,
    *,
    properties: Mapping[str, str] | None = None,
    drop_backup: bool = False,
    backup_table_name: str | None = None,
    ignore_missing_files: bool = False,
    dry_run: bool = False,
) -> MigrateTableResult:
    """Replace a folder of files, or a table of Spark's session catalog, by an Iceberg table of the same files, in one commit. No file is copied or changed.

    The files belong to the new table: they are deleted when their rows have been rewritten and the old snapshots expire. Stop all writers of the source first.

    Args:
        catalog: The catalog of the new table.
        source: A folder, whose partition columns are in its folders `name=value`; or the folders of a Spark table.
        name: The name of the new table. The default is the name of the Spark table; then its namespace is created if it does not exist in `catalog`.
        properties: Properties of the new table.
        drop_backup: Whether the renamed Spark table is dropped at the end. Its files stay.
        backup_table_name: The new name of the Spark table; by default its old name followed by `_BACKUP_`.
        ignore_missing_files: Whether folders that do not exist count as empty.
        dry_run: Check the files, and change nothing.

    Returns:
        The numbers of files, rows and bytes, and the name of the backup.

    Raises:
        NoSuchFileError: The folder does not exist.
        DataFileFormatError: A file is damaged, or is neither Parquet nor ORC.
        SchemaMismatchError: Files have different columns or partition columns, or columns with field ids.
        InvalidInputError: The source is a folder, and `name` is missing or an argument for a backup is set; or the folder has metadata of an Iceberg table.
        LocationNotAllowedError: The folder is a whole bucket, has the warehouse in it, or overlaps with the folder of another table.
        TableAlreadyExistsError, NoSuchNamespaceError: A name is taken, or a namespace does not exist.
        CommitConflictError: Files were added or deleted while their footers were read. The source is as it was before the call.
        CommitUnknownError: The catalog's reply was lost. The source keeps its new name.
        EngineError: Spark's catalog refuses to change, rename or drop the source table.
    """
    return _Migration(catalog, source, name, backup_table_name, drop_backup=drop_backup).run(
        properties or {}, ignore_missing=ignore_missing_files, dry_run=dry_run
    )


class _Migration:
    """One call of `migrate_table`: it checks the arguments, runs the steps in order, and undoes them after an error."""

    def __init__(
        self, catalog: Catalog, source: str | SourceFolders, name: Name | None, backup_name: str | None, *, drop_backup: bool
    ) -> None:
        self._catalog = catalog
        self._source = source
        self._table: SourceTable | None = source.table if isinstance(source, SourceFolders) else None
        if self._table is None:
            if not isinstance(source, str) or name is None:
                raise InvalidInputError(
                    f"{source} is no table of Spark's session catalog, and a folder has no name for the new table",
                    next_step="check the name, or pass new_table",
                )
            if drop_backup or backup_name is not None:
                raise InvalidInputError(
                    f"{source} is a folder, of which there is no backup", next_step="leave out drop_backup and backup_table_name"
                )
            self._location = qualify(source).rstrip("/")
        else:
            self._location = qualify(self._table.location).rstrip("/")
            backup_name = backup_name or f"{self._table.name[-1]}{BACKUP_SUFFIX}"
        self._keeps_name = name is None
        self._name: Name = name or (() if self._table is None else self._table.name)
        self._full_name = ".".join(catalog.resolve_name(self._name))
        self._backup_name = backup_name or ""
        self._drop_backup = drop_backup

    def run(self, properties: Mapping[str, str], *, ignore_missing: bool, dry_run: bool) -> MigrateTableResult:
        self._refuse_location()
        existing = existing_files(self._catalog, self._source, ignore_missing=ignore_missing, is_left_out=self._is_manifest)
        transaction = new_table_of(self._catalog, self._name, existing, self._location, properties, OF_MIGRATED)
        added = files_to_add(transaction, existing.files)
        if not dry_run:
            namespace = NewNamespace(self._catalog, self._catalog.resolve_name(self._name)[:-1])
            with namespace.dropped_on_error():
                if self._keeps_name:
                    namespace.create()
                self._replace(transaction, existing, added)
        is_kept = self._table is not None and (not self._drop_backup if dry_run else not self._drop(self._table))
        return MigrateTableResult(
            dry_run=dry_run,
            table=self._full_name,
            location=transaction.base.location,
            imported_files=len(added),
            imported_bytes=sum(file.file_size_in_bytes for file in added),
            imported_records=sum(file.record_count for file in added),
            outside_files=self._outside(added),
            backup=self._full_backup_name if is_kept else "",
            schema=existing.schema,
            partition_columns=existing.described.partition_columns,
        )

    @property
    def _full_backup_name(self) -> str:
        return ".".join((*self._table.name[:-1], self._backup_name)) if self._table is not None else ""

    def _is_manifest(self, file: str) -> bool:
        folder = f"{join(self._location, METADATA_FOLDER)}/"
        return file.startswith(folder) and _MANIFEST_NAME.fullmatch(file.removeprefix(folder)) is not None

    def _outside(self, files: list[DataFile]) -> int:
        own = place_of_folder(self._location)
        places = (place_of_file(file.file_path) for file in files)
        return sum(place is None or own is None or not place.is_below(own) for place in places)

    def _refuse_location(self) -> None:
        """Refuse a folder that must not become the folder of the new table, before any of its files is read.

        Raises:
            LocationNotAllowedError: The folder is a whole bucket, contains the warehouse, or overlaps with the folder of another table of the catalog.
            InvalidInputError: The location is not a folder, or the folder has metadata of an Iceberg table.
        """
        location, policy = self._location, LocationPolicy.of(self._catalog.properties)
        place = place_of_folder(location)
        if place is None:
            raise InvalidInputError(f"{location} is no folder", path=location, next_step="name a folder by its full location")
        if place.is_root or holds_warehouse(policy, place):
            raise LocationNotAllowedError(
                f"{location} is a whole bucket or file system, or has the warehouse in it: its files cannot all be those of {self._full_name}",
                path=location,
                next_step="use snapshot, which leaves the files to their owner",
            )
        others = [
            ".".join(table.identifier)
            for table in other_tables(self._catalog.store, self._catalog.resolve_name(self._name))
            if any(folder.overlaps(place) for folder in folders_of_table(policy, table))
        ]
        if others:
            raise LocationNotAllowedError(
                f"{location} overlaps with the folder of {others[0]}, so that files would belong to both tables",
                path=location,
                next_step="move one of them, or use snapshot, which leaves the files to their owner",
            )
        folder = join(location, METADATA_FOLDER)
        listed = list_part(load_file_io(self._catalog.properties, location), FolderPart(folder, 1), HiddenNames())
        names = [
            name for files in listed if isinstance(files, FolderFiles) and files.folder == folder for name in metadata_among(files.names)
        ]
        if names:
            raise InvalidInputError(
                f"{location} has the metadata of an Iceberg table: {METADATA_FOLDER}/{max(names)}",
                path=join(folder, max(names)),
                next_step="use register_table if it is a table; if a migration was killed there, delete the folder metadata, then repeat",
            )

    def _replace(self, transaction: CreateTableTransaction, existing: ExistingFiles, added: list[DataFile]) -> None:
        """Rename the source and commit the new table. After a failure the source gets its name back, unless the new table is, or may be, committed."""
        is_begun = False
        try:
            if self._table is not None:
                self._table.make_backup(self._backup_name)
            self._refuse_changes(existing)
            is_begun = True
            commit_files(transaction, added)
        except CommitUnknownError as error:
            raise self._unknown(error) from error
        except BaseException as error:
            # The exception may be an interrupt that came after the commit.
            is_uncertain = is_begun and not isinstance(error, IcefloeError)
            if not (is_uncertain and self._has_table(transaction)):
                self._restore(error, is_external=is_uncertain)
            raise

    def _refuse_changes(self, existing: ExistingFiles) -> None:
        """Raise `CommitConflictError` if the source has other files now than when their footers were read."""
        now = existing.again()
        changed = sorted(set(now) ^ set(existing.files))
        if changed:
            what = "was added" if changed[0] in set(now) else "was deleted"
            raise CommitConflictError(
                f"{changed[0]} {what} while {self._location} was migrated; {count_text(len(changed), 'file')} changed",
                table=self._full_name,
                path=changed[0],
                problems=(
                    Problem(where="expected", what=f"the {count_text(len(existing.files), 'file')} whose footers were read"),
                    Problem(where="found", what=f"{count_text(len(now), 'file')}"),
                ),
                next_step="stop the programs that write there: a retry makes sense then",
            )

    def _has_table(self, transaction: CreateTableTransaction) -> bool:
        """Return whether the new table is committed. Return True also if that cannot be determined."""
        try:
            return self._catalog.load_table(self._name).metadata.table_uuid == transaction.base.table_uuid
        except NotFoundError:
            return False
        except IcefloeError:
            return True

    def _restore(self, error: BaseException, *, is_external: bool) -> None:
        """Give the source its name back. If that fails too, log it and add a note to the original error, which the caller raises."""
        if self._table is None:
            return
        name = ".".join(self._table.name)
        try:
            self._table.restore(is_external=is_external)
        except IcefloeError as failure:
            note = f"{name} could not get its name back: {failure.message}. Run: ALTER TABLE {self._full_backup_name} RENAME TO {name}"
            LOG.error("%s", note)
            error.add_note(note)
        else:
            LOG.warning("%s was not migrated, and is a table of Spark again", name)

    def _unknown(self, error: CommitUnknownError) -> CommitUnknownError:
        if self._table is None:
            return error
        name = ".".join(self._table.name)
        return CommitUnknownError(
            f"{error.message}; {name} is {self._full_backup_name} now",
            table=self._full_name,
            path=error.path,
            snapshot_id=error.snapshot_id,
            problems=error.problems,
            next_step="look for the new table before you migrate again; no file was deleted. If it is not there:"
            f" ALTER TABLE {self._full_backup_name} RENAME TO {name}",
        )

    def _drop(self, table: SourceTable) -> bool:
        """Drop the backup if the caller requested it, and return whether it was dropped. If the catalog refuses, log that: the migration itself succeeded."""
        if not self._drop_backup:
            return False
        try:
            table.drop_backup()
        except EngineError as error:
            LOG.warning("%s was migrated, and its backup %s was not dropped: %s", self._full_name, self._full_backup_name, error.message)
            return False
        return True
