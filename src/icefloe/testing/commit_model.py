"""A plain model of one table's commits: branches as snapshots of rows, and which commits were acknowledged, refused or are unknown; it says what must hold.

    model = CommitModel(io, location)
    store = FaultyStore(inner, faults, on_swap=model.swapped)
    with model.commit("writer a", faults, table, [Rows(branch="main", change=lambda rows: rows + new)]):
        table.append(...)

Every swap that really happens is applied to the model at that moment, in the order of the swaps, and the new metadata is walked by brute force
(`reference_reader.py`): its
rows must be those that the operation makes of the rows before it. An operation that returned must have landed once, one that was refused never; of the others
either holds. Spec: Optimistic Concurrency; Sequence Numbers; Row Lineage; Snapshot References.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from icefloe.catalog_store.identifier import Identifier
from icefloe.errors import (
    CommitConflictError,
    CommitInvalidatedError,
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from icefloe.kernel.metadata.invariants import check_change, every_problem_of
from icefloe.kernel.metadata.metadata_reader import read_table_metadata
from icefloe.kernel.ports import FileIO
from icefloe.table.table_reader import TableReader
from icefloe.testing.commit_effects import Bag, Effect, Expiry, Landing, State, must, state_after
from icefloe.testing.fault_injection import Event, Fault, Faults, SimulatedCrash
from icefloe.testing.reference_reader import Recount, Walk, WalkedRow

# What an operation may be refused for with nobody else about: the model does not know what each asks for.
WRONG_ALONE = (InvalidInputError, NotFoundError, UnsupportedError)
REFUSALS = (CommitConflictError, CommitInvalidatedError, InvalidInputError, NotFoundError, UnsupportedError, StorageError)


@dataclass(slots=True, kw_only=True, eq=False)
class Commit:
    """One operation of one writer: what it does, which metadata files it wrote, and whether it landed."""

    writer: str
    faults: Faults
    effects: Sequence[Effect]
    base: str  # where the writer's metadata was read
    since: int  # its part of the writer's log
    started: int  # how many swaps there had been
    until: int | None = None
    landed: list[str] = field(default_factory=list)
    freed: set[str] = field(default_factory=set)  # files that the table named before it landed, and not afterwards
    outcome: str = "under way"
    report: Any = None  # what the operation returned; an `ExpireReport` where it expires snapshots

    def files(self, operations: set[str]) -> list[str]:
        """The files on which it did one of these operations."""
        return [event.target for event in self.events() if event.operation in operations and event.done]

    def events(self) -> list[Event]:
        """What it did."""
        return self.faults.log[self.since : self.until]

    @property
    def expires(self) -> bool:
        """Whether it deletes files after its commit, and may fail at that."""
        return any(isinstance(effect, Expiry) for effect in self.effects)

    @property
    def has_swapped(self) -> bool:
        """Whether it came as far as a swap."""
        return any(event.operation == "swap" for event in self.events())


class CommitModel:
    """The model of one table, told of every swap and of every operation. It raises `BrokenInvariantError` where one of the rules does not hold.

    `columns` are the field ids of the columns that the rows of the model have; the first must be unique among live rows where row ids are given.
    """

    def __init__(self, io: FileIO, location: str, columns: Sequence[int] = (1, 2, 3)) -> None:
        self.walk = Walk(io)
        self.state = State()
        self.location = location
        self.ever: list[str] = [location]  # where the pointer was, in order
        self.acknowledged: list[Commit] = []
        self.unknown: list[Commit] = []
        self.leftovers: Counter[str] = Counter()  # files of failed commits that are still there, by the reason
        self.steps: Counter[str] = Counter()  # operations by outcome
        self._io = io
        self._columns = tuple(columns)
        self._under_way: list[Commit] = []
        self._row_ids: dict[int, Any] = {}

    @contextmanager
    def commit(self, writer: str, faults: Faults, table: TableReader, effects: Sequence[Effect]) -> Iterator[Commit]:
        """Surrounds one operation: swallows the errors that an operation may end in, and checks what it came to."""
        one = Commit(
            writer=writer, faults=faults, effects=effects, base=table.metadata_location, since=len(faults.log), started=len(self.ever)
        )
        quiet = one.base == self.location
        landings = len(self.ever)
        self._under_way.append(one)
        try:
            yield one
        except CommitUnknownError:
            one.outcome = "unknown"
        except (SimulatedCrash, KeyboardInterrupt) as error:
            one.outcome = "interrupted" if isinstance(error, KeyboardInterrupt) else "crashed"
        except REFUSALS as error:
            one.outcome = "refused"
            was_alone = quiet and landings == len(self.ever) and not any(event.fault for event in faults.log[one.since :])
            must(not was_alone or isinstance(error, WRONG_ALONE), f"refused without any reason: {error!r}")
            if one.expires and isinstance(error, StorageError | NotFoundError):
                one.outcome = "uncleaned" if one.landed else "refused"
            must(
                not one.landed or one.outcome == "uncleaned", f"{writer}: {type(error).__name__} was raised, and the commit stands: {error}"
            )
        else:
            one.outcome = "acknowledged"
            must(one.landed or self._is_idle(one), f"{writer}: the commit was acknowledged, and never happened")
            self.acknowledged.append(one)
        self._finish(one)

    def _finish(self, one: Commit) -> None:
        self.steps[one.outcome] += 1
        one.until = len(one.faults.log)
        self._check_deleted_in_folder(one)
        if one.outcome == "uncleaned":
            self._under_way.remove(one)
        elif one.outcome in {"acknowledged", "refused"} or (one.outcome == "interrupted" and not one.has_swapped):
            self._under_way.remove(one)
            self._check_cleaned_up(one)
        else:
            self.unknown.append(one)  # it may land yet
        self.check()
        self._check_expired(one)

    def _check_expired(self, one: Commit) -> None:
        """Check the files that the table lost by an expiry in which nothing failed, whatever others did meanwhile.

        Those in the table's folder are deleted. Those outside of it are kept, and the report names them in `outside`. Files that another operation removed from
        the table are not checked: statistics that newer ones replaced stay, and another expiry may not have come to its deletes yet.
        """
        if not one.expires or one.outcome != "acknowledged" or any(event.fault for event in one.events()):
            return
        document = self.walk.document(self.location)
        named = self.walk.referenced(document)
        outside = {path for path in one.freed if not _is_in_folder(path, document["location"])}
        remaining = {path for path in one.freed - outside if self._io.exists(path)} - named
        must(not remaining, f"files of expired snapshots are left: {sorted(remaining)}")
        reported = set(one.report.outside["path"].to_pylist())
        must(
            outside - named <= reported,
            f"files outside the table's folder that the report does not name: {sorted(outside - named - reported)}",
        )
        wrong = {path for path in reported if _is_in_folder(path, document["location"]) or path in named or not self._io.exists(path)}
        must(not wrong, f"files that the report counts as kept outside the table's folder, and that are not: {sorted(wrong)}")
        deleted = set(one.report.files["path"].to_pylist())
        must(not deleted & reported, f"files that the report counts as deleted and as kept: {sorted(deleted & reported)}")

    def _check_deleted_in_folder(self, one: Commit) -> None:
        """Check that no file outside the table's folder was deleted."""
        folder = self.walk.document(self.location)["location"]
        outside = [path for path in one.files({"delete"}) if not _is_in_folder(path, folder)]
        must(not outside, f"{one.writer}: {one.outcome}, and these files outside the table's folder {folder} were deleted: {outside}")

    def _is_idle(self, one: Commit) -> bool:
        """Whether the operation had nothing to do on the metadata its writer held, or on a later one it saw."""
        return all(not effect.makes_snapshot or getattr(effect, "may_be_idle", True) for effect in one.effects)

    def _check_cleaned_up(self, one: Commit) -> None:
        """Of a commit whose outcome is known nothing may be left that the table does not name, unless a delete failed or the pointer could not be read."""
        named = self.walk.referenced(self.walk.document(self.location)) | set(self.ever)
        left = {path for path in one.files({"write", "open_output"}) if self._io.exists(path)} - named
        if left and one.landed:  # and overtaken by commits that took its snapshot away again
            left -= self.walk.referenced(self.walk.document(one.landed[0]))
        if not left:
            return
        excuse = _excuse(one.events())
        must(excuse, f"{one.writer}: {one.outcome}, and these files are left: {sorted(left)}")
        self.leftovers[str(excuse)] += len(left)

    def swapped(self, identifier: Identifier, location: str) -> None:  # noqa: ARG002  the signature of `on_swap`
        """A swap happened: finds whose it was, and applies what that operation does."""
        one = next((one for one in reversed(self._under_way) if location in one.files({"write"})), None)
        must(one is not None, f"nobody wrote {location}")
        assert one is not None  # noqa: S101  for mypy
        one.landed.append(location)
        must(len(one.landed) == 1, f"{one.writer}: one operation was committed twice: {one.landed}")
        before, after = self.walk.document(self.location), self.walk.document(location)
        must(after["metadata-log"][-1]["metadata-file"] == self.location, f"{location} is not built on {self.location}")
        self._check_metadata(location)
        known = {snapshot["snapshot-id"] for snapshot in before.get("snapshots") or ()}
        now = {snapshot["snapshot-id"]: snapshot for snapshot in after.get("snapshots") or ()}
        new = [snapshot for snapshot_id, snapshot in now.items() if snapshot_id not in known]
        makes = sum(effect.makes_snapshot for effect in one.effects)
        found = {name: (ref["type"], ref["snapshot-id"]) for name, ref in (after.get("refs") or {}).items()}
        state = state_after(
            one.effects,
            self.state,
            lambda choices: Landing(
                new=list(new),
                gone=known - now.keys(),
                idle=makes - len(new),
                rows=lambda one: self._rows(after, one),
                rows_in=lambda one, paths: self._rows_in(after if one in now else before, one, paths),
                choices=choices,
            ),
            lambda made: must(found == made.refs, f"{one.writer}: refs are {found}, and must be {made.refs}"),
        )
        must(state.properties.items() <= after["properties"].items(), f"properties are {after['properties']}, not {state.properties}")
        self._check_numbers(before, new)
        self.state, self.location = state, location
        self.ever.append(location)
        one.freed = self.walk.referenced(before) - self.walk.referenced(after)
        for snapshot in new:
            self._check_snapshot(after, snapshot)

    def _check_metadata(self, location: str) -> None:
        before, after = (read_table_metadata(self._io.read(place), place) for place in (self.location, location))
        check_change(before, after)
        must(not every_problem_of(after), f"{location}: {every_problem_of(after)}")

    def _check_numbers(self, before: Mapping[str, Any], new: Sequence[Mapping[str, Any]]) -> None:
        """Sequence numbers rise, and row ids are given once."""
        number, next_row_id = before.get("last-sequence-number", 0), before.get("next-row-id", 0)
        for snapshot in new:
            found = snapshot.get("sequence-number", 0)
            must(found > number or before["format-version"] == 1, f"sequence number {found} after {number}")
            number = found
            if "first-row-id" in snapshot:
                must(snapshot["first-row-id"] >= next_row_id, f"row ids from {snapshot['first-row-id']} were given before: {next_row_id}")
                next_row_id = snapshot["first-row-id"] + snapshot["added-rows"]

    def _check_snapshot(self, document: Mapping[str, Any], snapshot: Mapping[str, Any]) -> None:
        """Its rows are the model's and each of its files is live once, its summary is what a recount finds, its row ids are nobody else's."""
        found, ids = self._rows(document, snapshot), set[int]()
        for row in self.walk.rows(document, snapshot):
            values = self._values(row)
            if row.row_id is not None:
                must(row.row_id not in ids, f"two rows have the row id {row.row_id}")
                owner = self._row_ids.setdefault(row.row_id, values[0])
                must(owner == values[0], f"row id {row.row_id} was given to {owner} and to {values[0]}")
                ids.add(row.row_id)
        expected = self.state.snapshots[snapshot["snapshot-id"]].rows
        must(found == expected, f"missing rows {expected - found}, rows too many {found - expected}, in snapshot {snapshot}")
        parent = snapshot.get("parent-snapshot-id")
        before = self.walk.live_files(document, self.walk.snapshot(document, parent)) if parent is not None else ()
        files = self.walk.live_files(document, snapshot)
        twice = [key for key, count in Counter(file.key for file in files).items() if count > 1]
        must(not twice, f"files that are live twice in snapshot {snapshot}: {twice}")
        recount = Recount(files=files, before=before)
        problems = list(recount.problems(snapshot["summary"]))
        must(not problems, f"summary of {snapshot}: {problems}")

    def _rows(self, document: Mapping[str, Any], snapshot: Mapping[str, Any]) -> Bag:
        return Counter(self._values(row) for row in self.walk.rows(document, snapshot))

    def _rows_in(self, document: Mapping[str, Any], snapshot_id: int, paths: Collection[str]) -> Bag:
        rows = list(self.walk.rows(document, self.walk.snapshot(document, snapshot_id)))
        missing = set(paths) - {file.path for file in self.walk.live_files(document, self.walk.snapshot(document, snapshot_id))}
        must(not missing, f"files were to be removed that are not in the table: {missing}")
        return Counter(self._values(row) for row in rows if row.path in paths)

    def _values(self, row: WalkedRow) -> tuple[Any, ...]:
        return tuple(row.values.get(number) for number in self._columns)

    def check(self) -> None:
        """Every file that the table names is there, whatever happened."""
        named = {self.location, *self.walk.referenced(self.walk.document(self.location))}
        missing = sorted(path for path in named if not self._io.exists(path))
        must(not missing, f"files that the table names are gone: {missing}")

    def check_reading(self, table: TableReader, names: Sequence[str]) -> None:
        """Icefloe reads every branch and tag as the model has it. The table must have been refreshed."""
        must(
            table.metadata_location == self.location,
            f"the catalog names {table.metadata_location}, and the last swap was to {self.location}",
        )
        for _, snapshot_id in self.state.refs.values():
            rows = table.scan(selected_fields=names, snapshot_id=snapshot_id).to_arrow().select(list(names)).to_pylist()
            found = Counter(tuple(row[name] for name in names) for row in rows)
            must(found == self.state.rows(snapshot_id), f"snapshot {snapshot_id} reads as {found}")


def _is_in_folder(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _excuse(events: Sequence[Event]) -> str | None:
    """Why files of a failed commit may be left: one could not be deleted, or after a swap nobody could look where the pointer was."""
    swapped = False
    for event in events:
        swapped |= event.operation == "swap"
        is_failed = event.fault is not None and event.fault is not Fault.SLOW
        if is_failed and (event.operation == "delete" or (swapped and event.operation in {"load", "read"})):
            return f"{event.operation}: {event.fault}"
    return None
