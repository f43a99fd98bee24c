"""The table properties `maintenance.*`: the policy that `table.maintenance.maintain` and `icefloe maintain` follow for a table.

The names are Icefloe's, and are in no specification. Unknown names with the prefix `maintenance.` are refused, because a silently ignored policy would seem to
have an effect.
"""

from collections.abc import Mapping
from enum import StrEnum

from icefloe.errors import InvalidPropertyError, Problem
from icefloe.formatting import short_text
from icefloe.similar_names import similar_name
from icefloe.spec.metadata.property_kinds import Property, at_least, flag, number

PREFIX = "maintenance."


class MaintenanceAction(StrEnum):
    """The actions of maintenance, in the order in which they run."""

    EXPIRE_SNAPSHOTS = "expire-snapshots"
    REMOVE_DANGLING_DELETES = "remove-dangling-deletes"
    CONVERT_EQUALITY_DELETES = "convert-equality-deletes"
    REWRITE_DATA_FILES = "rewrite-data-files"
    REWRITE_POSITION_DELETE_FILES = "rewrite-position-delete-files"
    REWRITE_MANIFESTS = "rewrite-manifests"
    COMPUTE_PARTITION_STATS = "compute-partition-stats"
    COMPUTE_TABLE_STATS = "compute-table-stats"
    REMOVE_ORPHAN_FILES = "remove-orphan-files"


def _actions(text: str) -> tuple[MaintenanceAction, ...]:
    return tuple(MaintenanceAction(name.strip()) for name in text.split(",") if name.strip())


ENABLED = flag("maintenance.enabled", "`false`: `maintain` leaves the table alone.", default=True)
SKIP_ACTIONS: Property[tuple[MaintenanceAction, ...]] = Property(
    "maintenance.skip-actions",
    (),
    _actions,
    f"names of {', '.join(MaintenanceAction)}, separated by commas",
    "Actions that `maintain` does not run.",
)
MAX_BYTES: Property[int | None] = Property(
    "maintenance.max-bytes",
    None,
    at_least(0),
    "a whole number (bytes) of at least 0",
    "Most bytes of files that one run of `maintain` rewrites or reads for statistics; no limit where it is not set.",
)
MAX_MINUTES: Property[int | None] = Property(
    "maintenance.max-minutes",
    None,
    at_least(0),
    "a whole number (minutes) of at least 0",
    "Minutes after which one run of `maintain` starts no further work; no limit where it is not set.",
)
MIN_AGE_MINUTES = number(
    "maintenance.min-age-minutes", 10, 0, "minutes", "Partitions that younger commits changed are left to their writers by `maintain`."
)
MAX_WAIT_MINUTES = number(
    "maintenance.max-wait-minutes",
    1_440,
    0,
    "minutes",
    "Age of a file from which `maintain` rewrites it in a partition that is always written to, if young commits only added rows.",
)
MIN_SNAPSHOT_AGE_MINUTES: Property[int | None] = Property(
    "maintenance.min-snapshot-age-minutes",
    None,
    at_least(0),
    "a whole number (minutes) of at least 0",
    "Younger snapshots are kept by `maintain`, for streams and readers of changes that may be so far behind, whatever `history.expire.*` states.",
)
MIN_SNAPSHOTS: Property[int | None] = Property(
    "maintenance.min-snapshots-to-keep",
    None,
    at_least(1),
    "a whole number (snapshots) of at least 1",
    "So many snapshots of each branch are kept by `maintain`, whatever `history.expire.*` states.",
)
TABLE_STATS = flag(
    "maintenance.compute-table-stats",
    "Whether `maintain` counts the distinct values of columns again after many rows changed.",
    default=False,
)
ORPHAN_FILES = flag(
    "maintenance.remove-orphan-files",
    "Whether `maintain` lists the table's folder for files that nothing references, and deletes them once a list of them is seven days old.",
    default=False,
)
ALL: tuple[Property[object], ...] = tuple(value for value in list(globals().values()) if isinstance(value, Property))
NAMES = frozenset(known.name for known in ALL)


def refuse_unknown(properties: Mapping[str, str]) -> None:
    """Raise `InvalidPropertyError` if there is an unknown property with the prefix `maintenance.`."""
    unknown = [name for name in properties if name.startswith(PREFIX) and name not in NAMES]
    if unknown:
        raise InvalidPropertyError(
            f"there is no table property {', '.join(map(short_text, unknown))}",
            problems=[Problem(where=short_text(name), what=_describe_unknown(name)) for name in unknown],
            next_step=f"the properties of maintenance are {', '.join(sorted(NAMES))}",
        )


def _describe_unknown(name: str) -> str:
    similar = similar_name(name, NAMES)
    return "is unknown" if similar is None else f"seems to mean {similar}"
