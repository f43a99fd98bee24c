"""Every error Icefloe raises, grouped by what the caller does next.

    IcefloeError                     code, context (table, path, snapshot), next step
    ├── NotFoundError                look for the name, or create it
    │   ├── NoSuchCatalogError
    │   ├── NoSuchNamespaceError
    │   ├── NoSuchTableError
    │   ├── NoSuchViewError
    │   ├── NoSuchSnapshotError
    │   └── NoSuchFileError          a path that metadata or the user names is not there
    ├── AlreadyExistsError           choose another name, or load what is there
    │   ├── NamespaceAlreadyExistsError
    │   ├── TableAlreadyExistsError
    │   ├── ViewAlreadyExistsError
    │   └── FileAlreadyExistsError
    ├── InvalidInputError            correct the argument (also a ValueError)
    │   ├── InvalidIdentifierError
    │   ├── InvalidSchemaError
    │   ├── InvalidPartitionSpecError
    │   ├── InvalidFilterError
    │   ├── InvalidPropertyError
    │   ├── SchemaMismatchError      rows that do not fit the table
    │   ├── NamespaceNotEmptyError
    │   └── ReadOnlyTableError
    ├── FormatError                  bytes that break a rule of the format; every problem is listed
    │   ├── MetadataFormatError
    │   ├── AvroFormatError
    │   ├── ManifestFormatError
    │   ├── DataFileFormatError
    │   └── PuffinFormatError
    ├── UnsupportedError             allowed by the format, not by this version of Icefloe
    │   ├── UnsupportedFormatVersionError
    │   ├── UnsupportedTypeError
    │   └── UnsupportedFeatureError
    ├── CommitConflictError          another writer won every retry: refresh and try again
    ├── CommitInvalidatedError       another writer's change makes this one wrong: do not retry
    ├── CommitUnknownError           the outcome is not known: check the table, never delete files
    ├── StorageError                 storage said no or is away: mend it or back off
    │   ├── StoragePermissionError
    │   │   └── LocationNotAllowedError   a table names a place that the catalog's configuration does not allow
    │   ├── StorageFullError
    │   └── StorageUnavailableError
    └── EngineError                  Spark or Java is missing, or a Spark job failed

Codes are append-only and stable; the text of a message is not part of the API.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

# Characters by which a text controls a terminal, ends a line of a log, or is read in another order than it is written; not tab and line feed.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)")


def visible(text: str) -> str:
    """Return the text with control characters as JSON escapes them, so that a name or value out of a table cannot control what shows it."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_one_line(text: str) -> str:
    """Return the text as `visible` does, line breaks escaped too."""
    return visible(text).replace("\r", "\\r").replace("\n", "\\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One broken rule: where (a JSON path, a byte offset, a column name) and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class IcefloeError(Exception):
    """The base of every error here. `str()` gives the message, the context, each problem and the next step, without control characters."""

    code: ClassVar[str] = "icefloe"

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        path: str | None = None,
        snapshot_id: int | None = None,
        problems: Sequence[Problem] = (),
        next_step: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.path = path
        self.snapshot_id = snapshot_id
        self.problems = tuple(problems)
        self.next_step = next_step

    def __str__(self) -> str:
        context = [
            f"{label} {in_one_line(str(value))}"
            for label, value in (("table", self.table), ("file", self.path), ("snapshot", self.snapshot_id))
            if value is not None and str(value) not in self.message
        ]
        head = self.message + (f" ({', '.join(context)})" if context else "")
        lines = [head, *(f"  - {problem}" for problem in self.problems)]
        if self.next_step:
            lines.append(f"  Next: {self.next_step}")
        # Further lines of a message are indented: what is quoted in it cannot pass for the next line of a log.
        return "\n".join(visible(line).replace("\n", "\n    ") for line in lines)

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process borders (Spark tasks), so keyword context must survive pickling."""
        return (_rebuild, (type(self), self.message, self.table, self.path, self.snapshot_id, self.problems, self.next_step))


def _rebuild(
    kind: type[IcefloeError],
    message: str,
    table: str | None,
    path: str | None,
    snapshot_id: int | None,
    problems: tuple[Problem, ...],
    next_step: str | None,
) -> IcefloeError:
    return kind(message, table=table, path=path, snapshot_id=snapshot_id, problems=problems, next_step=next_step)


class NotFoundError(IcefloeError):
    code = "not-found"


class NoSuchCatalogError(NotFoundError):
    code = "no-such-catalog"


class NoSuchNamespaceError(NotFoundError):
    code = "no-such-namespace"


class NoSuchTableError(NotFoundError):
    code = "no-such-table"


class UnfinishedDropError(NoSuchTableError):
    """The table was dropped, and not all of its files are deleted; the next `drop_table` of the name deletes the rest."""

    code = "unfinished-drop"


class NoSuchViewError(NotFoundError):
    code = "no-such-view"


class NoSuchSnapshotError(NotFoundError):
    code = "no-such-snapshot"


class NoSuchFileError(NotFoundError):
    code = "no-such-file"


class AlreadyExistsError(IcefloeError):
    code = "already-exists"


class NamespaceAlreadyExistsError(AlreadyExistsError):
    code = "namespace-already-exists"


class TableAlreadyExistsError(AlreadyExistsError):
    code = "table-already-exists"


class ViewAlreadyExistsError(AlreadyExistsError):
    code = "view-already-exists"


class FileAlreadyExistsError(AlreadyExistsError):
    code = "file-already-exists"


class InvalidInputError(IcefloeError, ValueError):
    code = "invalid-input"


class InvalidIdentifierError(InvalidInputError):
    code = "invalid-identifier"


class InvalidSchemaError(InvalidInputError):
    code = "invalid-schema"


class InvalidPartitionSpecError(InvalidInputError):
    code = "invalid-partition-spec"


class InvalidFilterError(InvalidInputError):
    code = "invalid-filter"


class InvalidPropertyError(InvalidInputError):
    code = "invalid-property"


class SchemaMismatchError(InvalidInputError):
    code = "schema-mismatch"


class NamespaceNotEmptyError(InvalidInputError):
    code = "namespace-not-empty"


class ReadOnlyTableError(InvalidInputError):
    code = "read-only-table"


class FormatError(IcefloeError):
    code = "bad-format"


class MetadataFormatError(FormatError):
    code = "bad-metadata"


class AvroFormatError(FormatError):
    code = "bad-avro"


class ManifestFormatError(FormatError):
    code = "bad-manifest"


class DataFileFormatError(FormatError):
    code = "bad-data-file"


class PuffinFormatError(FormatError):
    code = "bad-puffin"


class UnsupportedError(IcefloeError):
    code = "unsupported"


class UnsupportedFormatVersionError(UnsupportedError):
    code = "unsupported-format-version"


class UnsupportedTypeError(UnsupportedError):
    code = "unsupported-type"


class UnsupportedFeatureError(UnsupportedError):
    code = "unsupported-feature"


class CommitConflictError(IcefloeError):
    code = "commit-conflict"


class CommitInvalidatedError(IcefloeError):
    code = "commit-invalidated"


class CommitUnknownError(IcefloeError):
    code = "commit-unknown"


class StorageError(IcefloeError):
    code = "storage"


class StoragePermissionError(StorageError):
    code = "storage-permission"


class LocationNotAllowedError(StoragePermissionError):
    code = "location-not-allowed"


class StorageFullError(StorageError):
    code = "storage-full"


class StorageUnavailableError(StorageError):
    code = "storage-unavailable"


class EngineError(IcefloeError):
    code = "engine"


class FormatWarning(UserWarning):
    """A file breaks a rule of the format, and is read all the same, since what it holds is not in doubt.

    Turn it into an error with `warnings.filterwarnings("error", category=FormatWarning)`.
    """
