"""Every error that Icefloe raises, grouped by what the caller can do next.

    IcefloeError                     code, context (table, path, snapshot), next step
    ├── NotFoundError                look for the name, or create it
    │   ├── NoSuchCatalogError
    │   ├── NoSuchNamespaceError
    │   ├── NoSuchTableError
    │   │   └── UnfinishedDropError  the table was dropped, but not completely: drop it again
    │   ├── NoSuchViewError
    │   ├── NoSuchSnapshotError      also a ValueError
    │   └── NoSuchFileError          a file that metadata or the user refers to does not exist (also a FileNotFoundError)
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
    │   ├── SchemaMismatchError      rows that do not fit the schema of the table
    │   ├── NamespaceNotEmptyError
    │   └── ReadOnlyTableError
    ├── FormatError                  a file that breaks a rule of the format; every problem is listed
    │   ├── MetadataFormatError
    │   ├── AvroFormatError
    │   ├── ManifestFormatError
    │   ├── DataFileFormatError
    │   └── PuffinFormatError
    ├── UnsupportedError             allowed by the format, not by this version of Icefloe
    │   ├── UnsupportedFormatVersionError
    │   ├── UnsupportedTypeError
    │   └── UnsupportedFeatureError
    │       └── NotInstalledError    an optional package is missing: run the command that the next step names (also an ImportError)
    ├── CommitConflictError          another writer committed first in every retry: refresh and retry
    ├── CommitInvalidatedError       another writer's commit invalidates the changes: do not retry
    ├── CommitUnknownError           the commit state is unknown: check the table, never delete files
    ├── StorageError                 storage refuses a request or is unavailable: correct it or wait
    │   ├── StoragePermissionError
    │   │   └── LocationNotAllowedError   a table uses a location that the catalog's configuration does not allow
    │   ├── StorageFullError
    │   └── StorageUnavailableError
    ├── OutOfMemoryError             this process has too little memory for a file
    └── EngineError                  Spark or Java is missing, or a Spark job failed

The code of an error never changes and codes are only added; the text of a message is not part of the API.
"""

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

# Characters that control a terminal, end a line of a log, or change the direction of text; tab and line feed are allowed.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)")


def visible(text: str) -> str:
    """Return the text with control characters escaped as in JSON, so that a name or value of a table cannot control a terminal or a log.

    Args:
        text: Any text; tabs and line feeds are kept.

    Returns:
        The text with the escapes of JSON.
    """
    return _CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)


def in_one_line(text: str) -> str:
    """Return the text as `visible` does, with line breaks escaped too.

    Args:
        text: Any text.

    Returns:
        One line of text.
    """
    return visible(text).replace("\r", "\\r").replace("\n", "\\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One broken rule of the format.

    Attributes:
        where: The place in the file: a JSON path, a byte offset or a column name; empty for the whole file.
        what: The rule that is broken.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class IcefloeError(Exception):
    """The base class of every error that Icefloe raises.

    `str()` returns the message, the context, each problem and the next step, without control characters.

    Args:
        message: What failed, in one sentence.
        table: Name of the table.
        path: Location of the file.
        snapshot_id: The snapshot.
        problems: The broken rules, for errors of the format.
        next_step: What the user can do, as an imperative sentence.

    Attributes:
        code: A stable identifier of the kind of error, such as `no-such-table`.
    """

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
        # Further lines of a message are indented, so that text quoted in it cannot look like the next line of a log.
        return "\n".join(visible(line).replace("\n", "\n    ") for line in lines)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the keyword arguments when an error is pickled, which sends it from a Spark task to the driver."""
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
    """A catalog, namespace, table, view, snapshot or file does not exist."""

    code = "not-found"


class NoSuchCatalogError(NotFoundError):
    """No catalog with this name is configured."""

    code = "no-such-catalog"


class NoSuchNamespaceError(NotFoundError):
    """The namespace does not exist."""

    code = "no-such-namespace"


class NoSuchTableError(NotFoundError):
    """The table does not exist."""

    code = "no-such-table"


class UnfinishedDropError(NoSuchTableError):
    """The table was dropped, but some of its files or its name in the catalog could not be deleted; the next `drop_table` of the name deletes the rest."""

    code = "unfinished-drop"


class NoSuchViewError(NotFoundError):
    """The view does not exist."""

    code = "no-such-view"


class NoSuchSnapshotError(NotFoundError, ValueError):
    """The snapshot, branch or tag does not exist in the table; it is also a `ValueError`."""

    code = "no-such-snapshot"


class NoSuchFileError(NotFoundError, FileNotFoundError):
    """A file that metadata or the user refers to does not exist; it is also a `FileNotFoundError`."""

    code = "no-such-file"
    errno = errno.ENOENT

    @property
    def filename(self) -> str | None:
        """The location of the file, under the name that `OSError` has for it."""
        return self.path


class AlreadyExistsError(IcefloeError):
    """A namespace, table, view or file with this name already exists."""

    code = "already-exists"


class NamespaceAlreadyExistsError(AlreadyExistsError):
    """The namespace already exists."""

    code = "namespace-already-exists"


class TableAlreadyExistsError(AlreadyExistsError):
    """A table with this name already exists."""

    code = "table-already-exists"


class ViewAlreadyExistsError(AlreadyExistsError):
    """A view with this name already exists."""

    code = "view-already-exists"


class FileAlreadyExistsError(AlreadyExistsError):
    """A file with this location already exists."""

    code = "file-already-exists"


class InvalidInputError(IcefloeError, ValueError):
    """An argument is invalid; it is also a `ValueError`."""

    code = "invalid-input"


class InvalidIdentifierError(InvalidInputError):
    """A name of a namespace, table or view is invalid."""

    code = "invalid-identifier"


class InvalidSchemaError(InvalidInputError):
    """A schema, or a change of one, breaks a rule of the format."""

    code = "invalid-schema"


class InvalidPartitionSpecError(InvalidInputError):
    """A partition spec or sort order, or a change of one, breaks a rule of the format."""

    code = "invalid-partition-spec"


class InvalidFilterError(InvalidInputError):
    """A filter cannot be parsed, or does not fit the schema of the table."""

    code = "invalid-filter"


class InvalidPropertyError(InvalidInputError):
    """A property has an invalid name or value."""

    code = "invalid-property"


class SchemaMismatchError(InvalidInputError):
    """The rows to write do not fit the schema of the table."""

    code = "schema-mismatch"


class NamespaceNotEmptyError(InvalidInputError):
    """The namespace contains tables, views or other namespaces and cannot be dropped."""

    code = "namespace-not-empty"


class ReadOnlyTableError(InvalidInputError):
    """The table was loaded without a catalog and cannot be changed."""

    code = "read-only-table"


class FormatError(IcefloeError):
    """A file breaks a rule of the format; `problems` lists the broken rules."""

    code = "bad-format"


class MetadataFormatError(FormatError):
    """A metadata file of a table or view breaks a rule of the format."""

    code = "bad-metadata"


class AvroFormatError(FormatError):
    """A file is not a valid Avro file."""

    code = "bad-avro"


class ManifestFormatError(FormatError):
    """A manifest list or manifest breaks a rule of the format."""

    code = "bad-manifest"


class DataFileFormatError(FormatError):
    """A data file or delete file breaks a rule of the format."""

    code = "bad-data-file"


class PuffinFormatError(FormatError):
    """A Puffin file, or a deletion vector or sketch in it, breaks a rule of the format."""

    code = "bad-puffin"


class UnsupportedError(IcefloeError):
    """The format allows the request, but this version of Icefloe does not support it."""

    code = "unsupported"


class UnsupportedFormatVersionError(UnsupportedError):
    """The format version of the table is not supported."""

    code = "unsupported-format-version"


class UnsupportedTypeError(UnsupportedError):
    """A type is not supported by the file format, engine or operation that has to handle it."""

    code = "unsupported-type"


class UnsupportedFeatureError(UnsupportedError):
    """A feature is not supported by this catalog, engine or version."""

    code = "unsupported-feature"


class NotInstalledError(UnsupportedFeatureError, ImportError):
    """A feature needs an optional package that is not installed; it is also an `ImportError`, and the next step is the command that installs it."""

    code = "not-installed"


class CommitConflictError(IcefloeError):
    """Other writers committed first in every retry; nothing was committed, and the operation can be repeated."""

    code = "commit-conflict"


class CommitInvalidatedError(IcefloeError):
    """A commit of another writer makes the changes of this operation invalid; nothing was committed, and a retry fails again."""

    code = "commit-invalidated"


class CommitUnknownError(IcefloeError):
    """The commit state is unknown: the commit may or may not have happened, so that its files must not be deleted."""

    code = "commit-unknown"


class StorageError(IcefloeError):
    """The storage refused or failed a request."""

    code = "storage"


class StoragePermissionError(StorageError):
    """The storage denies access to a file."""

    code = "storage-permission"


class LocationNotAllowedError(StoragePermissionError):
    """A table uses a location that the catalog's configuration does not allow."""

    code = "location-not-allowed"


class StorageFullError(StorageError):
    """The storage has no space left."""

    code = "storage-full"


class StorageUnavailableError(StorageError):
    """The storage cannot be reached or is overloaded; the request can be repeated later."""

    code = "storage-unavailable"


class OutOfMemoryError(IcefloeError):
    """This process has too little memory for a file; nothing is known to be wrong with the file."""

    code = "out-of-memory"


class EngineError(IcefloeError):
    """Spark or Java is missing, or a Spark job failed."""

    code = "engine"


class FormatWarning(UserWarning):
    """A file breaks a rule of the format but is read, since its content is unambiguous.

    Turn it into an error with `warnings.filterwarnings("error", category=FormatWarning)`.
    """
