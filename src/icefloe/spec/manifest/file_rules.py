"""The rules for files that a commit adds: which files each format version allows, and which fields their manifest entries must have.

The writer (`manifest_writer.py`) checks that a manifest has either data or deletes, and which numbers an entry has. The commit checks that a data file has at
most one deletion vector. Spec: Delete Formats; Deletion Vectors; Data File Fields.
"""

from icefloe.errors import InvalidInputError
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat

_DELETION_VECTOR_FIELDS = ("referenced_data_file", "content_offset", "content_size_in_bytes")


def is_deletion_vector(file: DataFile) -> bool:
    """Return True for a deletion vector, which is a blob of a Puffin file. Spec: Deletion Vectors."""
    return file.content == FileContent.POSITION_DELETES and file.file_format == FileFormat.PUFFIN


def check_added(file: DataFile, format_version: int) -> None:
    """Raise an error if a table of this format version must not contain the file.

    Raises:
        InvalidInputError: the file violates a rule; the error names the file and the rule.
    """
    if file.content == FileContent.DATA:
        if file.file_format == FileFormat.PUFFIN:
            raise _refuse(file, "a data file is Parquet, ORC or Avro, and this one is Puffin")
    elif format_version == 1:
        raise _refuse(file, "a table of format version 1 has no delete files", "upgrade the table, or rewrite its files without those rows")
    elif file.content == FileContent.EQUALITY_DELETES:
        _check_equality_deletes(file)
    elif is_deletion_vector(file):
        _check_deletion_vector(file, format_version)
    elif format_version > 2:
        rule = "from format version 3 on no position delete files are added"
        raise _refuse(file, rule, "write a deletion vector that holds its positions and those of older delete files")


def _check_equality_deletes(file: DataFile) -> None:
    if not file.equality_ids:
        raise _refuse(file, "equality deletes must list the columns that they compare (equality_ids)")
    if file.file_format == FileFormat.PUFFIN:
        raise _refuse(file, "equality deletes are rows in Parquet, ORC or Avro, and this file is Puffin")


def _check_deletion_vector(file: DataFile, format_version: int) -> None:
    if format_version < 3:
        raise _refuse(file, f"a table of format version {format_version} has no deletion vectors", "write a position delete file")
    missing = [name for name in _DELETION_VECTOR_FIELDS if getattr(file, name) is None]
    if missing:
        raise _refuse(file, f"a deletion vector must have {', '.join(missing)}")


def _refuse(file: DataFile, rule: str, next_step: str | None = None) -> InvalidInputError:
    return InvalidInputError(f"{file.file_path} cannot be added: {rule}", path=file.file_path, next_step=next_step)
