"""`Attempt`: one attempt of a commit as a value: the metadata files to write, then the updates to apply to the base metadata.

An `Action` (such as `append.py`, `overwrite.py`, `metadata_change.py`) returns an attempt for a base. Actions do no I/O except through `Read`; the loop in
`icefloe.operations.commit_loop` writes the files, applies the updates, commits the new metadata location, and retries. JAVA: SnapshotUpdate.apply.
Spec: Optimistic Concurrency; Snapshots.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from icefloe.spec.manifest.manifest_merge import Parallel
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import Requirement
from icefloe.spec.metadata.table_metadata import TableMetadata

Read = Callable[[str], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A metadata file to write before the metadata location is committed."""

    location: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt on one base.

    `manifests` are the manifests of this commit that its snapshots list. All other manifests that the commit wrote may be deleted once it has succeeded.
    `listed_manifests` are the same as the list of the snapshot has them, with sequence numbers and first row ids; none where that is not known.
    A change of metadata only, such as of the schema, has `updates` and `requirements` only. The attempt of a transaction can add several snapshots;
    `snapshot_id` and `summary` are those of the last one.
    """

    updates: tuple[Update, ...]
    requirements: tuple[Requirement, ...] = ()
    snapshot_id: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    manifests: tuple[ManifestFile, ...] = ()
    listed_manifests: tuple[ManifestFile, ...] = ()
    manifest_files: tuple[NewFile, ...] = ()  # including those that an earlier attempt wrote
    manifest_lists: tuple[NewFile, ...] = ()  # one per snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """The values that all attempts of one commit share. Ids are generated once, before the first attempt."""

    commit_uuid: str
    snapshot_id: int
    metadata_location: str  # folder for manifests and manifest lists
    branch: str = "main"
    makes_branch: bool = False  # create a missing branch at the head of main
    stage_only: bool = False  # add the snapshot without moving a branch to it
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    parallel: Parallel = map  # maps over manifests, on the threads of the table


class Action(Protocol):
    """A change of a table that can be applied to any base. JAVA: PendingUpdate, SnapshotProducer.

    After a conflict, the commit loop calls the same action again with the refreshed base.
    """

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> "Attempt | None":
        """Return the attempt on this base, or None if there is nothing to commit.

        Args:
            base: the current metadata of the table.
            number: the number of the attempt, from 0.
            now_ms: the current time, in milliseconds since 1970 (UTC).
            read: returns the bytes of a metadata file.

        Raises:
            CommitInvalidatedError: another commit changed the table so that this change is no longer valid; a retry will fail again.
        """

    def new_data_files(self) -> Sequence[str]:
        """Return the locations of the data and delete files that this action owns: they are deleted if the commit is known to have failed."""
