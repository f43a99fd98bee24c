"""`Attempt`: one try at a commit as data: the files to write first, then the updates to apply to the base.

An action (`append.py`, `overwrite.py`, `metadata_change.py`) looks at a base table and returns one of these; the loop in `icefloe.table.commits.commit_loop`
writes the files, applies the updates and swaps the pointer. Spec: Optimistic Concurrency; Snapshots.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from icefloe.kernel.manifest.manifest_merge import Parallel
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.requirement import Requirement
from icefloe.kernel.metadata.table_metadata import TableMetadata

Read = Callable[[str], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A metadata file to write before the swap."""

    location: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try. `manifests` are those of this commit that its snapshots name: of what it wrote, all else may go when it has succeeded.

    A change of metadata alone, such as of the schema, has updates and requirements and nothing else. Several snapshots are one transaction's;
    `snapshot_id` and `summary` are those of the last.
    """

    updates: tuple[Update, ...]
    requirements: tuple[Requirement, ...] = ()
    snapshot_id: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    manifests: tuple[ManifestFile, ...] = ()
    manifest_files: tuple[NewFile, ...] = ()  # also those that an earlier attempt wrote
    manifest_lists: tuple[NewFile, ...] = ()  # one a snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """What every attempt of one commit shares: ids drawn once, before the first attempt."""

    commit_uuid: str
    snapshot_id: int
    metadata_location: str  # folder for manifests and manifest lists
    branch: str = "main"
    makes_branch: bool = False  # from the head of main, where the branch is not there
    stage_only: bool = False  # the snapshot is added, and no branch moves to it
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    parallel: Parallel = map  # how work on many manifests is done; the table's threads


class Action(Protocol):
    """Looks at a base and says what to write. Called again with the new base after a lost race."""

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> "Attempt | None":
        """The attempt on this base; None where there is nothing to commit. `number` counts from 0.

        Raises:
            CommitInvalidatedError: the base moved in a way that makes this change wrong.
        """

    def new_data_files(self) -> Sequence[str]:
        """Locations of data files this action owns, to be deleted if the commit is known to have failed."""
