"""The check, before a commit, that the files that Spark's tasks report exist for the process that commits.

A local path is another disk on every machine: tasks on other machines write it without an error, and the committed table would be unreadable.
Spec: Writing Data Files.
"""

from collections.abc import Iterable

from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import StorageError
from icefloe.io.locations import scheme_of


def check_files_exist(target: WriteTarget, locations: Iterable[str]) -> None:
    """Refuse to commit local files that this process does not find; locations of object stores, which have one meaning everywhere, are not looked up.

    Args:
        target: The write, with the storage as this process opens it.
        locations: The locations that the tasks reported.

    Raises:
        StorageError: A file is missing.
    """
    local = [location for location in locations if scheme_of(location) == "file"]
    missing = [location for location in local if not target.io.exists(location)]
    if missing:
        raise StorageError(
            f"Spark's workers wrote to their own disk: {len(missing)} of the {len(local)} files that they reported do not exist on this machine; "
            "nothing was committed, and the files remain on the workers",
            table=target.table_name,
            path=missing[0],
            next_step="keep the warehouse in an object store or in a folder that is mounted at this path on every machine of Spark",
        )
