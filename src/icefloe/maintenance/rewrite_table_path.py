"""`rewrite_table_path`: prepare a table for a move: stage files with new paths, and on request copy and compare all files. The table itself does not change.

`staged_copy.py` stages the files, `copied_files.py` copies them, and `copy_verification.py` compares them. Spec: Paths in Metadata.
"""

import csv
import io as text_io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from icefloe.display.report import Facts, Report
from icefloe.display.reportable import MOST_LINES, OperationResult, json_ready
from icefloe.errors import IcefloeError, InvalidInputError
from icefloe.formatting import count_text, size_text
from icefloe.io.bulk_delete import delete_files
from icefloe.io.locations import place_of_folder
from icefloe.maintenance.copied_files import copy_files
from icefloe.maintenance.copy_verification import CopyVerification, VerifiedCopy
from icefloe.maintenance.staged_copy import StagedCopy, Version
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.metadata_cache import read_metadata_at
from icefloe.operations.table_handle import metadata_folder
from icefloe.spec.metadata.encryption import refuse_encrypted
from icefloe.spec.path_prefix import PathPrefix, path_prefix

# The name of the list of files in the staging folder, as in Java.
FILE_LIST = "file-list"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RewriteTablePathResult(OperationResult):
    """The result of `rewrite_table_path`; with `dry_run`, the result that the call would have.

    Attributes:
        table: The table.
        dry_run: Whether nothing was written.
        copies: Whether the caller requested the copy.
        latest_version: The name of the metadata file of the last version.
        metadata_location: The location of that metadata file in the copy, which is used to register the copy.
        staging_location: The folder of the rewritten files; None if they were deleted after they were copied.
        file_list_location: The location of the list of files to copy, a CSV file of sources and targets; None without a list.
        rewritten_manifests: The number of manifests with new paths.
        rewritten_delete_files: The number of position delete files and Puffin files of deletion vectors with new paths.
        files: The number of files to copy, including rewritten files.
        bytes: The size of the files to copy.
        missing_versions: Older metadata files that do not exist any more, and are not in the copy's log.
        copied_files: The number of files that were copied.
        present_files: The number of files that were at the target already, with the same bytes.
        verified: The numbers of compared items; None without a comparison.
    """

    table: str
    dry_run: bool = False
    copies: bool = False
    latest_version: str
    metadata_location: str
    staging_location: str | None
    file_list_location: str | None
    rewritten_manifests: int
    rewritten_delete_files: int
    files: int
    bytes: int
    missing_versions: tuple[str, ...] = ()
    copied_files: int = 0
    present_files: int = 0
    verified: VerifiedCopy | None = None

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no list
        rewritten = f"{count_text(self.rewritten_manifests, 'manifest')}, {count_text(self.rewritten_delete_files, 'delete file')}"
        facts = [
            ("files", f"{count_text(self.files, 'file')}, {size_text(self.bytes)}"),
            ("would be rewritten" if self.dry_run else "rewritten", rewritten),
            ("to be registered as", self.metadata_location),
        ]
        if self.staging_location is not None:
            facts.append(("staged in", self.staging_location))
        if self.file_list_location is not None:
            facts.append(("list of files", self.file_list_location))
        if self.missing_versions:
            facts.append(("left out of the log", f"{count_text(len(self.missing_versions), 'metadata file')} that do not exist"))
        if self.copies and not self.dry_run:
            facts.append(("copied", f"{count_text(self.copied_files, 'file')}; {self.present_files:,} were there already"))
        if self.verified is not None:
            equal = f"{count_text(self.verified.files, 'file')}, {size_text(self.verified.bytes)}, {self.verified.records:,} rows"
            facts.append(("equal", equal))
        return Report(f"paths of {self.table}", (Facts(tuple(facts)),))

    def to_dict(self) -> dict[str, Any]:
        """Return every field; counts of a part that did not run are null."""
        fields: dict[str, Any] = json_ready(replace(self, verified=None))
        del fields["verified"]
        if not fields.pop("copies") or self.dry_run:
            fields |= {"copied_files": None, "present_files": None}
        same = self.verified
        counts = (None, None, None) if same is None else (same.files, same.bytes, same.records)
        return {**fields, **dict(zip(("verified_files", "verified_bytes", "verified_rows"), counts, strict=True))}


def rewrite_table_path(
    table: LoadedTable,
    source_prefix: str,
    target_prefix: str,
    *,
    start_version: str | None,
    end_version: str | None,
    staging_location: str | None,
    create_file_list: bool,
    copy: bool,
    verify: bool,
    dry_run: bool,
) -> RewriteTablePathResult:
    """Prepare a copy of a table at another location. Arguments and errors are those of `TableMaintenance.rewrite_table_path`."""
    prefix = path_prefix(source_prefix, target_prefix)
    _refuse_same_place(prefix)
    end = _version(table, end_version) or Version(table.metadata_location, table.metadata)
    start = _version(table, start_version)
    if start is not None and start.location not in (end.location, *(entry.metadata_file for entry in end.metadata.metadata_log)):
        raise InvalidInputError(
            f"the version {start_version!r} of {table.full_name} is not before the version {end.location.rpartition('/')[2]!r}",
            table=table.full_name,
            next_step="name an older start version, or a newer end version",
        )
    _refuse_encrypted(end)
    staging = _staging(table, staging_location, prefix)
    compares_only = verify and not copy
    staged = StagedCopy(table.io, prefix, staging, start, end, is_dry=dry_run or compares_only)
    with _says_what_remains(staged, prefix):
        staged.stage()
        parts = staged.copies()
        result = RewriteTablePathResult(
            table=table.full_name,
            copies=copy,
            dry_run=dry_run,
            latest_version=end.location.rpartition("/")[2],
            metadata_location=prefix.move(end.location),
            staging_location=None if staged.is_dry else staging,
            file_list_location=_write_list(staged, parts) if create_file_list and not staged.is_dry else None,
            rewritten_manifests=staged.manifests,
            rewritten_delete_files=staged.delete_files,
            files=sum(map(len, parts)),
            bytes=sum(pc.sum(part["size"]).as_py() or 0 for part in parts),
            missing_versions=staged.missing_versions,
        )
        if dry_run:
            return result
        if copy:
            present = sum(copied.was_there for part in parts for copied in copy_files(table.io, part))
            result = replace(result, copied_files=result.files - present, present_files=present)
        if verify:
            result = replace(result, verified=CopyVerification(table.io, prefix, end, staged.missing_versions).run())
    if copy and staging_location is None:
        # The staged files have been copied, and nothing else needs them.
        _delete_staged(staged)
        result = replace(result, staging_location=None, file_list_location=None)
    return result


def _refuse_same_place(prefix: PathPrefix) -> None:
    """Refuse prefixes that are the same folder, or one inside the other, when links are resolved. Raises `InvalidInputError`."""
    source, target = place_of_folder(prefix.source), place_of_folder(prefix.target)
    if source is not None and target is not None and source.overlaps(target):
        raise InvalidInputError(
            f"the source prefix {prefix.source} and the target prefix {prefix.target} are one place, or one is within the other",
            path=prefix.target,
            next_step="choose a target prefix outside of the table, such as a bucket or folder of its own",
        )


def _refuse_encrypted(version: Version) -> None:
    """Refuse a table with encrypted manifest lists. Raises `UnsupportedFeatureError`."""
    for snapshot in version.metadata.snapshots:
        refuse_encrypted(snapshot)


def _version(table: LoadedTable, name: str | None) -> Version | None:
    """Find a version by the name or the location of its metadata file. Raises `InvalidInputError` if the table's log does not contain it."""
    if name is None:
        return None
    locations = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
    named = [location for location in locations if name in (location, location.rpartition("/")[2])]
    if not named:
        raise InvalidInputError(
            f"{table.full_name} has no version {name!r} in its metadata log",
            table=table.full_name,
            next_step="name a metadata file of the table; its metadata log lists them",
        )
    return Version(named[0], read_metadata_at(table.io, named[0]).metadata)


def _staging(table: LoadedTable, location: str | None, prefix: PathPrefix) -> str:
    if location is None:
        return f"{metadata_folder(table.metadata)}/copy-table-staging-{table.handle.ids.uuid()}/"
    folder = location.rstrip("/")
    if not folder or f"{folder}/".startswith(f"{prefix.target}/") or f"{prefix.target}/".startswith(f"{folder}/"):
        raise InvalidInputError(
            f"the staging location {location!r} is within the target, or the target is within it",
            next_step="choose an empty folder elsewhere, or leave it out",
        )
    return f"{folder}/"


def _write_list(staged: StagedCopy, parts: Sequence[Any]) -> str:
    """Write the pairs of source and target as CSV without a header; paths with commas or quotes are quoted."""
    location = staged.staging + FILE_LIST
    text = text_io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    content: list[bytes] = []
    for part in parts:
        for batch in part.select(["source", "target"]).to_batches(max_chunksize=65_536):
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            content.append(text.getvalue().encode())
            text.seek(0)
            text.truncate()
    staged.io.write(location, content)
    staged.written.append(location)
    return location


@contextmanager
def _says_what_remains(staged: StagedCopy, prefix: PathPrefix) -> Iterator[None]:
    """Delete the staged files after an error. Copied files stay, so that another run can continue; the error's next step names their folder."""
    try:
        yield
    except BaseException as error:
        failed = _delete_staged(staged)
        if isinstance(error, IcefloeError):
            remains = f"the table is unchanged; what was copied to {prefix.target} stays, for another run or to be deleted"
            remains += f"; delete {staged.staging}" if failed else ""
            error.next_step = f"{error.next_step}; {remains}" if error.next_step else remains
        raise


def _delete_staged(staged: StagedCopy) -> bool:
    """Delete the files that this run staged. Return True if some could not be deleted."""
    return bool(delete_files(staged.io, staged.written))
