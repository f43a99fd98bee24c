"""`replace_location`: replace the metadata file of an existing table by a compare-and-swap, for `register_table(..., overwrite=True)`.

Spec: Metastore Tables.
"""

from icefloe.commit.outcome import Committed, Conflicted, Refused, Unknown
from icefloe.errors import CommitConflictError, CommitUnknownError, Problem
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.catalog_store import CatalogStore, CommitRequest


def replace_location(store: CatalogStore, name: Identifier, metadata_location: str, *, expected: str | None = None) -> str:
    """Replace the metadata location of an existing table.

    Args:
        store: the catalog store.
        name: the table's name.
        metadata_location: the new metadata location.
        expected: the metadata location that the table must have; by default its current one.

    Returns:
        The new metadata location in the form that the store keeps.

    Raises:
        NoSuchTableError: the table does not exist.
        CommitConflictError: another writer committed to the table meanwhile.
        CommitUnknownError: the reply of the store was lost.
    """
    expected = store.load(name).metadata_location if expected is None else expected
    match store.commit([CommitRequest(identifier=name, expected=expected, new=metadata_location)]):
        case Committed(stored=stored):
            return stored[0].location if stored else metadata_location
        case Refused(error=error):
            raise error
        case Conflicted(current_location=current):
            raise CommitConflictError(
                f"another writer committed to {dotted(name)!r} while its name was to be given to {metadata_location}",
                table=dotted(name),
                problems=(
                    Problem(where="expected", what=f"the metadata location {expected}"),
                    Problem(where="found", what=f"{current}"),
                ),
                next_step="a retry makes sense: check the newer version of the table, and register it again",
            )
        case Unknown(reason=reason):
            raise CommitUnknownError(
                f"it is unknown whether {dotted(name)!r} has another metadata file now: {reason}",
                table=dotted(name),
                path=metadata_location,
                next_step=f"load the table before you register it again, and look whether its metadata_location is {metadata_location}; no file was deleted",
            )
