"""`Attempt`: one attempt of a commit as a value: the metadata files to write, then the updates to apply to the base metadata.

An `Action`, such as `Append` or `MetadataChange`, returns an attempt for a base. Actions do no I/O except through `Read`. The commit loop,
`icefloe.operations.commit_loop`, writes the files, applies the updates, commits the new metadata location, and retries. JAVA: SnapshotUpdate.apply.
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
    """One attempt to apply a change to a base, the current metadata of a table: the files to write, the updates and the requirements.

    A change of metadata only, such as of the schema, has only `updates` and `requirements`.

    Attributes:
        updates: The updates of the base metadata.
        requirements: What the catalog's metadata must fulfil for the commit.
        snapshot_id: The new snapshot, the last one if a transaction adds several; None without a snapshot.
        summary: The summary of this snapshot.
        manifests: The manifests of this commit that its snapshots list. All other manifests that the commit wrote may be deleted once it has succeeded.
        listed_manifests: The same manifests as lines of the manifest list, with sequence numbers and first row ids; empty if these are unknown.
        manifest_files: The manifests to write, including those that an earlier attempt wrote.
        manifest_lists: The manifest lists to write, one for each snapshot.
    """

    updates: tuple[Update, ...]
    requirements: tuple[Requirement, ...] = ()
    snapshot_id: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    manifests: tuple[ManifestFile, ...] = ()
    listed_manifests: tuple[ManifestFile, ...] = ()
    manifest_files: tuple[NewFile, ...] = ()  # some may have been written by an earlier attempt
    manifest_lists: tuple[NewFile, ...] = ()  # one per snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """The values that all attempts of one commit share. The ids are generated once, before the first attempt."""

    commit_uuid: str
    snapshot_id: int
    metadata_location: str  # folder for manifests and manifest lists
    branch: str = "main"
    makes_branch: bool = False  # whether to create the branch at the head of main if it does not exist
    stage_only: bool = False  # whether to add the snapshot without moving a branch to it
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    parallel: Parallel = map  # maps a function over manifests, with the threads of the table


class Action(Protocol):
    """A change of a table that can be applied to any base metadata. JAVA: PendingUpdate, SnapshotProducer.

    After a commit of another writer, the commit loop calls the same action again with the newer base.
    """

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> "Attempt | None":
        """Return the attempt on this base, or None if there is nothing to commit.

        Args:
            base: the current metadata of the table.
            number: the number of the attempt, from 0.
            now_ms: the current time, in milliseconds since 1970-01-01 UTC.
            read: returns the bytes of a metadata file.

        Raises:
            CommitInvalidatedError: another commit changed the table so that this change is no longer valid; a retry will fail again.
        """

    def new_data_files(self) -> Sequence[str]:
        """Return the locations of the data and delete files that this action owns: they are deleted if the commit is known to have failed."""
