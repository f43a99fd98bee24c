"""Rules of a catalog's entries: an entry names the newest metadata file of its table, and no two entries name the same table; and, on request, orphan files.

A metadata location that cannot be loaded is a finding about the metadata file. Spec: Metastore Tables; File System Operations; Table Metadata Fields
(`table-uuid`).
"""

import glob
from collections.abc import Iterator, Sequence

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.issue import Remedy
from icefloe.checks.manifest_check import NOT_CHECKED
from icefloe.checks.rule import Depth, Level, Rule, value_text
from icefloe.errors import IcefloeError, StorageUnavailableError
from icefloe.io.listing import files_of
from icefloe.maintenance.table_maintenance import TableMaintenance
from icefloe.operations.loaded_table import LoadedTable
from icefloe.spec.metadata.json_file import inflate, parse_json
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.spec.metadata.naming import metadata_version
from icefloe.spec.ports import FileIO

METADATA_NEWER = Rule(
    id="metadata-newer",
    level=Level.CATALOG,
    severity=Severity.WARNING,
    title="No metadata file follows the one that the catalog names.",
    section="Metastore Tables",
    harm="The catalog may have lost a commit, for example by a restored copy: engines read an older state, and the next commit forks the history.",
    next_step="compare the files; if the newer one was committed, let icefloe repair --only follow-newer-metadata go on from it",
)
REGISTERED_TWICE = Rule(
    id="table-registered-twice",
    level=Level.CATALOG,
    severity=Severity.WARNING,
    title="No two names of a catalog have the same table.",
    section="Table Metadata Fields",
    harm="A commit by one name is not seen by the other; dropping or expiring one deletes files that the other needs.",
    next_step="drop one of the names without deleting files",
)
ORPHAN = Rule(
    id="orphan-file",
    level=Level.CATALOG,
    severity=Severity.NOTE,
    title="Every file in the table's folder that is older than three days is referenced by its metadata.",
    section="File System Operations",
    harm="None of itself; the files take space.",
    next_step="remove them with icefloe remove-orphan-files, which lists them first with --quarantine",
    depth=Depth.ORPHANS,
    remedy=Remedy(operation=MaintenanceAction.REMOVE_ORPHAN_FILES),
)
RULES = (METADATA_NEWER, REGISTERED_TWICE, ORPHAN)


def location_findings(location: str, io: FileIO) -> Iterator[Finding]:
    """Yield a finding if a later metadata file in the same folder follows the one that the catalog names.

    Only the metadata file with the highest version is read: it follows the other if its metadata log contains the other's name. Nothing is yielded if the
    folder cannot be listed.

    Args:
        location: The metadata location in the catalog.
        io: The storage.

    Raises:
        StorageUnavailableError: The storage cannot be reached.
    """
    version = metadata_version(location)
    folder, _, name = location.rpartition("/")
    if version is None or not folder:
        return
    try:
        files = files_of(io, f"{glob.escape(folder)}/*.metadata.json*")
    except StorageUnavailableError:
        raise
    except IcefloeError:
        return
    later = [file for file in files if (metadata_version(file) or 0) > version]
    for file in sorted(later, key=lambda file: metadata_version(file) or 0, reverse=True)[:1]:
        if _follows(file, name, io):
            yield METADATA_NEWER.finding(
                f"the catalog names {value_text(name)}, and {value_text(file.rpartition('/')[2])} follows it",
                file=location,
                path=file,
                expected=file,
                actual=location,
            )


def _follows(file: str, name: str, io: FileIO) -> bool:
    """Return whether a metadata file names another one in its metadata log. A metadata file that cannot be read does not.

    Args:
        file: The location of the metadata file.
        name: The file name of the other, without its folder.
        io: The storage.
    """
    try:
        document = parse_json(inflate(io.read(file), file), file)
    except StorageUnavailableError:
        raise
    except IcefloeError:
        return False
    log = document.get("metadata-log") if isinstance(document, dict) else None
    named = (entry.get("metadata-file") for entry in (log if isinstance(log, list) else ()) if isinstance(entry, dict))
    return any(isinstance(path, str) and path.rpartition("/")[2] == name for path in named)


def registered_twice(tables: Sequence[tuple[str, str | None, str | None]]) -> Iterator[tuple[str, Finding]]:
    """Yield the names that are a second name of a table: an earlier name has a table with the same uuid, whose metadata files are in the same folder.

    A copy of a table in another folder may keep the uuid, because it has files of its own. Two tables with unknown uuids are the same if they have the same
    metadata location. Names with an unknown metadata location are skipped.

    Args:
        tables: The name, metadata location and uuid of each table; None where they are unknown.

    Yields:
        The name of the later table, and its finding.
    """
    owners: dict[tuple[str, str], str] = {}
    for name, location, table_uuid in tables:
        if location is None:
            continue
        key = (table_uuid.lower(), location.rpartition("/")[0]) if table_uuid else ("", location)
        owner = owners.setdefault(key, name)
        if owner != name:
            same = f"both have the uuid {value_text(table_uuid)} and one metadata folder" if table_uuid else "both have one metadata file"
            yield (
                name,
                REGISTERED_TWICE.finding(
                    f"{value_text(name)} is the same table as {value_text(owner)}: {same}", file=location, expected=owner, actual=name
                ),
            )


def orphan_findings(table: LoadedTable) -> Iterator[Finding]:
    """Yield the orphan files of a table, as a dry run of `remove_orphan_files` lists them."""
    try:
        files = TableMaintenance(table).remove_orphan_files(dry_run=True).files
    except StorageUnavailableError:
        raise
    except IcefloeError as error:
        yield NOT_CHECKED.finding(
            f"the folder of the table cannot be searched for orphan files: {value_text(error.message)}", file=table.metadata_location
        )
        return
    for path in files["path"].to_pylist():
        yield ORPHAN.finding(f"{value_text(path)} is referenced by no metadata", file=path, path=path)
