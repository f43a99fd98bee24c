"""`CommitModel`: a model of one table that checks the invariants of every commit.

The model has branches as snapshots of rows, and the commits that were acknowledged, refused or are unknown.

    model = CommitModel(io, location)
    store = FaultyStore(inner, faults, on_commit=model.swapped)
    with model.commit("writer a", faults, table, [Rows(branch="main", change=lambda rows: rows + new)]):
        table.append(...)

Every swap that really happens is applied to the model at that moment, in the order of the swaps, and `reference_reader.py` reads the new metadata: its rows
must be the expected rows after the operation (`commit_effects.py`). An operation that returned must have been committed once, a refused one never; an
operation with an unknown outcome at most once. Spec: Optimistic Concurrency; Sequence Numbers; Row Lineage; Snapshot References.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.commit_effects import Bag, BrokenInvariantError, Effect, Expiry, Landing, State, must, state_after
from tests.reference_reader import LiveRow, Recount, ReferenceReader

from icefloe.errors import (
    CommitConflictError,
    CommitInvalidatedError,
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from icefloe.operations.expiry.expire_report import ExpireReport
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.invariants import check_change, every_problem_of
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.ports import FileIO
from icefloe.testing.fault_injection import Event, Fault, Faults, SimulatedCrash

# Errors that an operation may raise without other writers: the model does not check whether the arguments of an operation are valid.
WRONG_ALONE = (InvalidInputError, NotFoundError, UnsupportedError)
REFUSALS = (CommitConflictError, CommitInvalidatedError, InvalidInputError, NotFoundError, UnsupportedError, StorageError)


@dataclass(slots=True, kw_only=True, eq=False)
class Commit:
    """One operation of one writer: its effects, the metadata files it committed, and its outcome."""

    writer: str
    faults: Faults
    effects: Sequence[Effect]
    base: str  # metadata location of the writer's table when the operation began
    since: int  # start of its events in the log of the writer
    started: int  # number of swaps before it
    until: int | None = None
    landed: list[str] = field(default_factory=list)
    freed: set[str] = field(default_factory=set)  # files of the snapshots that it expired to which the table does not refer any more
    outcome: str = "under way"
    report: Any = None  # result of the operation

    def files(self, operations: set[str]) -> list[str]:
        """Return the files on which it has done one of these operations."""
        return [event.target for event in self.events() if event.operation in operations and event.done]

    def events(self) -> list[Event]:
        """Return the events of the operation."""
        return self.faults.log[self.since : self.until]

    @property
    def expires(self) -> bool:
        """True if it deletes files after its commit, which may fail."""
        return any(isinstance(effect, Expiry) for effect in self.effects)

    @property
    def repeats(self) -> bool:
        """True if it may commit several times."""
        return any(getattr(effect, "repeats", False) for effect in self.effects)

    @property
    def has_swapped(self) -> bool:
        """True if it has tried a swap."""
        return any(event.operation == "commit" for event in self.events())


class CommitModel:
    """The model of one table. It raises `BrokenInvariantError` if a commit violates an invariant.

    Args:
        io: The storage of the table, without faults.
        location: The metadata location of the new table.
        columns: Field ids of the columns of the model's rows; the first one must be unique among live rows of tables with row ids.
    """

    def __init__(self, io: FileIO, location: str, columns: Sequence[int] = (1, 2, 3)) -> None:
        self.reader = ReferenceReader(io)
        self.state = State()
        self.location = location
        self.ever: list[str] = [location]  # all metadata locations of the table, in order
        self.acknowledged: list[Commit] = []
        self.unknown: list[Commit] = []
        self.remaining_files: Counter[str] = Counter()  # files of failed commits that were not deleted, by the reason
        self.steps: Counter[str] = Counter()  # operations by outcome
        self._io = io
        self._columns = tuple(columns)
        self._under_way: list[Commit] = []
        self._row_ids: dict[int, Any] = {}
        self._broken: BrokenInvariantError | None = None

    @contextmanager
    def commit(self, writer: str, faults: Faults, table: TableReader, effects: Sequence[Effect]) -> Iterator[Commit]:
        """Run one operation in a block: catch the errors that an operation may raise, and check its outcome."""
        commit = Commit(
            writer=writer, faults=faults, effects=effects, base=table.metadata_location, since=len(faults.log), started=len(self.ever)
        )
        quiet = commit.base == self.location
        landings = len(self.ever)
        self._under_way.append(commit)
        try:
            yield commit
        except CommitUnknownError:
            commit.outcome = "unknown"
        except (SimulatedCrash, KeyboardInterrupt) as error:
            commit.outcome = "interrupted" if isinstance(error, KeyboardInterrupt) else "crashed"
        except REFUSALS as error:
            commit.outcome = "refused"
            was_alone = quiet and landings == len(self.ever) and not any(event.fault for event in faults.log[commit.since :])
            must(not was_alone or isinstance(error, WRONG_ALONE), f"refused without any reason: {error!r}")
            if commit.expires and isinstance(error, StorageError | NotFoundError):
                commit.outcome = "uncleaned" if commit.landed else "refused"
            must(
                not commit.landed or commit.outcome == "uncleaned" or commit.repeats,
                f"{writer}: {type(error).__name__} was raised, but the commit happened: {error}",
            )
        else:
            commit.outcome = "acknowledged"
            must(commit.landed or self._is_idle(commit), f"{writer}: the commit was acknowledged, but did not happen")
            self.acknowledged.append(commit)
        self._finish(commit)

    def _finish(self, commit: Commit) -> None:
        self.steps[commit.outcome] += 1
        commit.until = len(commit.faults.log)
        self._check_deleted_in_folder(commit)
        if commit.outcome == "uncleaned":
            self._under_way.remove(commit)
        elif commit.outcome in {"acknowledged", "refused"} or (
            commit.outcome == "interrupted" and not commit.has_swapped and not commit.repeats
        ):
            self._under_way.remove(commit)
            self._check_cleaned_up(commit)
        else:
            self.unknown.append(commit)  # it may still be committed
        self.check()
        self._check_expired(commit)

    def _check_expired(self, commit: Commit) -> None:
        """Check the files of snapshots that an expiry without faults removed, whatever other writers do meanwhile.

        Files in the table's folder are deleted. Files outside of it are kept, and the report lists them in `outside`. Files that another operation removed from
        the table are not checked: replaced statistics files are kept, and another expiry may not have deleted its files yet.
        """
        if not commit.expires or commit.outcome != "acknowledged" or any(event.fault for event in commit.events()):
            return
        document = self.reader.document(self.location)
        named = self.reader.referenced(document)
        outside = {path for path in commit.freed if not _is_in_folder(path, document["location"])}
        remaining = {path for path in commit.freed - outside if self._io.exists(path)} - named
        must(not remaining, f"files of expired snapshots remain: {sorted(remaining)}")
        if not isinstance(commit.report, ExpireReport):  # `maintain` reports all actions in words
            return
        reported = set(commit.report.outside["path"].to_pylist())
        must(
            outside - named <= reported,
            f"files outside the table's folder that the report does not list: {sorted(outside - named - reported)}",
        )
        wrong = {path for path in reported if _is_in_folder(path, document["location"]) or path in named or not self._io.exists(path)}
        must(not wrong, f"files that the report lists as kept outside the table's folder, but that are not: {sorted(wrong)}")
        deleted = set(commit.report.files["path"].to_pylist())
        must(not deleted & reported, f"files that the report lists both as deleted and as kept: {sorted(deleted & reported)}")

    def _check_deleted_in_folder(self, commit: Commit) -> None:
        """Check that no file outside the table's folder was deleted."""
        folder = self.reader.document(self.location)["location"]
        outside = [path for path in commit.files({"delete"}) if not _is_in_folder(path, folder)]
        must(not outside, f"{commit.writer}: {commit.outcome}, but these files outside the table's folder {folder} were deleted: {outside}")

    def _is_idle(self, commit: Commit) -> bool:
        """Return True if the operation may have had nothing to do, on the metadata of its writer or on a later version."""
        return all(not effect.makes_snapshot or getattr(effect, "may_be_idle", True) for effect in commit.effects)

    def _check_cleaned_up(self, commit: Commit) -> None:
        """Check that a commit with a known outcome has deleted its unused files, unless a delete failed or the metadata location could not be read."""
        named = self.reader.referenced(self.reader.document(self.location)) | set(self.ever)
        remaining = {path for path in commit.files({"write", "open_output"}) if self._io.exists(path)} - named
        if remaining and commit.landed:  # later commits may have removed its snapshot
            remaining = remaining.difference(*(self.reader.referenced(self.reader.document(location)) for location in commit.landed))
        if not remaining:
            return
        excuse = _excuse(commit.events())
        must(excuse, f"{commit.writer}: {commit.outcome}, but these files remain: {sorted(remaining)}")
        self.remaining_files[str(excuse)] += len(remaining)

    def swapped(self, identifier: Identifier, location: str) -> None:
        """Find the operation that a swap belongs to and apply its effects; `FaultyStore` calls this as `on_commit`.

        An error is raised again by `check`, because an operation of several steps may report it and go on.
        """
        try:
            self._apply(location)
        except BrokenInvariantError as error:
            self._broken = self._broken or error
            raise

    def _apply(self, location: str) -> None:
        commit = next((commit for commit in reversed(self._under_way) if location in commit.files({"write"})), None)
        must(commit is not None, f"no operation wrote {location}")
        assert commit is not None
        commit.landed.append(location)
        must(len(commit.landed) == 1 or commit.repeats, f"{commit.writer}: one operation was committed twice: {commit.landed}")
        before, after = self.reader.document(self.location), self.reader.document(location)
        must(after["metadata-log"][-1]["metadata-file"] == self.location, f"{location} is not based on {self.location}")
        self._check_metadata(location)
        previous = {snapshot["snapshot-id"] for snapshot in before.get("snapshots") or ()}
        now = {snapshot["snapshot-id"]: snapshot for snapshot in after.get("snapshots") or ()}
        new = [snapshot for snapshot_id, snapshot in now.items() if snapshot_id not in previous]
        makes = sum(effect.makes_snapshot for effect in commit.effects)
        refs = {name: (ref["type"], ref["snapshot-id"]) for name, ref in (after.get("refs") or {}).items()}
        state = state_after(
            commit.effects,
            self.state,
            lambda choices: Landing(
                new=list(new),
                gone=previous - now.keys(),
                idle=makes - len(new),
                rows=lambda snapshot: self._rows(after, snapshot),
                rows_in=lambda snapshot_id, paths: self._rows_in(after if snapshot_id in now else before, snapshot_id, paths),
                choices=choices,
            ),
            lambda expected: must(refs == expected.refs, f"{commit.writer}: refs are {refs}, not {expected.refs}"),
        )
        must(state.properties.items() <= after["properties"].items(), f"properties are {after['properties']}, not {state.properties}")
        self._check_numbers(before, new)
        self.state, self.location = state, location
        self.ever.append(location)
        if previous - now.keys():
            commit.freed |= self.reader.referenced(before) - self.reader.referenced(after)
        for snapshot in new:
            self._check_snapshot(after, snapshot)

    def _check_metadata(self, location: str) -> None:
        before, after = (read_table_metadata(self._io.read(place), place) for place in (self.location, location))
        check_change(before, after)
        must(not every_problem_of(after), f"{location}: {every_problem_of(after)}")

    def _check_numbers(self, before: Mapping[str, Any], new: Sequence[Mapping[str, Any]]) -> None:
        """Check that sequence numbers increase and that row ids are assigned once."""
        number, next_row_id = before.get("last-sequence-number", 0), before.get("next-row-id", 0)
        for snapshot in new:
            new_number = snapshot.get("sequence-number", 0)
            must(new_number > number or before["format-version"] == 1, f"sequence number {new_number} after {number}")
            number = new_number
            if "first-row-id" in snapshot:
                must(
                    snapshot["first-row-id"] >= next_row_id, f"row ids from {snapshot['first-row-id']} were assigned before: {next_row_id}"
                )
                next_row_id = snapshot["first-row-id"] + snapshot["added-rows"]

    def _check_snapshot(self, document: Mapping[str, Any], snapshot: Mapping[str, Any]) -> None:
        """Check that a snapshot has the rows of the model, each file once, a summary with the right counts, and unique row ids."""
        found, ids = self._rows(document, snapshot), set[int]()
        for row in self.reader.rows(document, snapshot):
            values = self._values(row)
            if row.row_id is not None:
                must(row.row_id not in ids, f"two rows have the row id {row.row_id}")
                owner = self._row_ids.setdefault(row.row_id, values[0])
                must(owner == values[0], f"row id {row.row_id} was assigned to {owner} and to {values[0]}")
                ids.add(row.row_id)
        expected = self.state.snapshots[snapshot["snapshot-id"]].rows
        must(found == expected, f"missing rows {expected - found}, rows too many {found - expected}, in snapshot {snapshot}")
        parent = snapshot.get("parent-snapshot-id")
        before = self.reader.live_files(document, self.reader.snapshot(document, parent)) if parent is not None else ()
        files = self.reader.live_files(document, snapshot)
        twice = [key for key, count in Counter(file.key for file in files).items() if count > 1]
        must(not twice, f"files that are live twice in snapshot {snapshot}: {twice}")
        recount = Recount(files=files, before=before)
        problems = list(recount.problems(snapshot["summary"]))
        must(not problems, f"summary of {snapshot}: {problems}")

    def _rows(self, document: Mapping[str, Any], snapshot: Mapping[str, Any]) -> Bag:
        return Counter(self._values(row) for row in self.reader.rows(document, snapshot))

    def _rows_in(self, document: Mapping[str, Any], snapshot_id: int, paths: Collection[str]) -> Bag:
        rows = list(self.reader.rows(document, self.reader.snapshot(document, snapshot_id)))
        missing = set(paths) - {file.path for file in self.reader.live_files(document, self.reader.snapshot(document, snapshot_id))}
        must(not missing, f"the operation removes files that are not in the table: {missing}")
        return Counter(self._values(row) for row in rows if row.path in paths)

    def _values(self, row: LiveRow) -> tuple[Any, ...]:
        return tuple(row.values.get(number) for number in self._columns)

    def check(self) -> None:
        """Check that every file that the table refers to exists, and that no commit violated an invariant."""
        if self._broken is not None:
            raise self._broken
        named = {self.location, *self.reader.referenced(self.reader.document(self.location))}
        missing = sorted(path for path in named if not self._io.exists(path))
        must(not missing, f"files that the table refers to do not exist: {missing}")

    def check_reading(self, table: TableReader, names: Sequence[str]) -> None:
        """Check that Icefloe reads the rows of the model from every branch and tag.

        Args:
            table: The table, after a refresh.
            names: The columns of the model's rows.
        """
        must(
            table.metadata_location == self.location,
            f"the catalog has {table.metadata_location}, but the last swap was to {self.location}",
        )
        for _, snapshot_id in self.state.refs.values():
            rows = table.scan(selected_fields=names, snapshot_id=snapshot_id).to_arrow().select(list(names)).to_pylist()
            actual = Counter(tuple(row[name] for name in names) for row in rows)
            must(actual == self.state.rows(snapshot_id), f"snapshot {snapshot_id} reads as {actual}")


def _is_in_folder(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _excuse(events: Sequence[Event]) -> str | None:
    """Return why files of a failed commit may remain: a delete failed, or the metadata location could not be read after a swap; else None."""
    swapped = False
    for event in events:
        swapped |= event.operation == "commit"
        is_failed = event.fault is not None and event.fault is not Fault.SLOW
        if is_failed and (event.operation == "delete" or (swapped and event.operation in {"load", "read"})):
            return f"{event.operation}: {event.fault}"
    return None
