"""A check of a manifest's size in bytes against the size in its manifest list.

A manifest that was cut off at the end of a block is valid Avro, so only its size or its number of entries shows that something is missing. Some writers record
a wrong size of a complete manifest; then the number of entries is compared. Spec: Manifest Lists (`manifest_length`).
"""

from icefloe.errors import AvroFormatError, Problem
from icefloe.spec.avro.avro_container import count_records, open_container
from icefloe.spec.tolerance import Deviation, Tolerance


def check_length(content: bytes, path: str, stated: int | None, counts: tuple[int | None, int | None, int | None]) -> None:
    """Refuse a manifest that was cut off. Warn of a manifest that is complete but has a different size than in its manifest list.

    A manifest is complete if its last Avro block is complete, and if it has as many entries as the manifest list counts. If the list has no counts, as in some
    tables of format version 1, a manifest that is shorter than its stated size is refused, because it may have been cut off.

    Args:
        content: The manifest's bytes.
        path: Its location, for errors.
        stated: `manifest_length` of the manifest list; None if there is none.
        counts: The numbers of added, existing and deleted entries according to the manifest list; None for an unknown count.

    Raises:
        AvroFormatError: The manifest was cut off, or is damaged.

    Warns:
        FormatWarning: The manifest is complete, and has a different size than stated.
    """
    size = len(content)
    if stated is None or size == stated:
        return
    try:
        entry_count = count_records(open_container(content, path))
    except AvroFormatError as error:
        if size > stated:
            raise
        raise _cut_short(path, size, stated) from error
    known_counts = [count for count in counts if count is not None]
    is_counted = len(known_counts) == len(counts)
    if size < stated and not (is_counted and entry_count == sum(known_counts)):
        raise _cut_short(path, size, stated)
    if is_counted and entry_count != sum(known_counts):
        return  # the reader of the entries compares the counts by status, and raises the error
    Tolerance.DEFAULT.accept(
        Deviation.MANIFEST_LENGTH,
        f"the manifest {path} has {size} bytes, and its manifest list states {stated}; it is read, since its blocks are whole"
        + (" and its entries are as many as the list counts" if is_counted else ""),
    )


def _cut_short(path: str, size: int, stated: int) -> AvroFormatError:
    what = f"the file is cut short: it has {size} bytes, its manifest list states {stated}"
    return AvroFormatError(
        f"{path} is not whole",
        path=path,
        problems=(Problem(where=f"byte {size}", what=what),),
        next_step="restore the file from a copy, or roll the table back to a snapshot that does not use it",
    )
