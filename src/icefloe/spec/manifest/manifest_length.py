"""A check of a manifest's size in bytes against the size in its manifest list.

A manifest cut at the end of a block is valid Avro, so that only its size or its number of entries shows that something is missing. Some writers record a wrong
size for a whole manifest; the number of entries decides then. Spec: Manifest Lists (`manifest_length`).
"""

from icefloe.errors import AvroFormatError, Problem
from icefloe.spec.avro.avro_container import count_records, open_container
from icefloe.spec.tolerance import Deviation, Tolerance


def check_length(content: bytes, path: str, stated: int | None, counts: tuple[int | None, int | None, int | None]) -> None:
    """Refuse a manifest that was cut short, and warn of one that is whole but of another size than in its manifest list.

    A manifest is whole where its last Avro block is, and it has as many entries as the manifest list counts. Where the list has no counts, as in some tables
    of format version 1, a manifest that is shorter than stated cannot be distinguished from one that was cut, and is refused.

    Args:
        content: The manifest's bytes.
        path: Its location, for errors.
        stated: `manifest_length` of the manifest list; None if there is none.
        counts: How many entries are added, existing and deleted by the manifest list; None for one that it does not count.

    Raises:
        AvroFormatError: The manifest was cut short, or is damaged.

    Warns:
        FormatWarning: The manifest is whole, and its size is not the stated one.
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
        return  # the reader of the entries compares them with the counts by status, and refuses them
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
