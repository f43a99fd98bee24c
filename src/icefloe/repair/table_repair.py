"""`plan_table` and `undo_table`: the plan of the repairs of one table, their commit, and its undoing.

A validation finds what is wrong. Repairs of the metadata file are done first, as one new metadata file, because repairs of the snapshot build on it. The
repairs of the snapshot are one new snapshot of the branch. Spec: Table Metadata; Snapshots; Optimistic Concurrency.
"""

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from icefloe.checks import repair_kinds as kinds
from icefloe.checks.catalog_rules import location_findings
from icefloe.checks.file_check import FileCheck, FileTask
from icefloe.checks.finding import Finding
from icefloe.checks.repair_kinds import REPAIR_BY_ID, RepairKind, Scope, chosen_kinds
from icefloe.checks.rule import Depth
from icefloe.checks.table_content import TableContent, read_content
from icefloe.checks.table_validation import ValidationArguments, ValidationProgress, layout_of, validate_table
from icefloe.commit.attempt import NewFile
from icefloe.errors import (
    FormatError,
    InvalidInputError,
    LocationNotAllowedError,
    NoSuchFileError,
    NoSuchSnapshotError,
    NoSuchTableError,
    StoragePermissionError,
    TableAlreadyExistsError,
    UnsupportedError,
    UnsupportedFeatureError,
)
from icefloe.operations.commit_loop import commit
from icefloe.operations.metadata_cache import LoadedMetadata, has_no_file, load_metadata, metadata_of, read_metadata_at
from icefloe.operations.rows.write_context import snapshot_context
from icefloe.operations.table_handle import TableHandle
from icefloe.repair.head_snapshot import lost_lists, manifests_by_path
from icefloe.repair.manifest_list_rebuild import ManifestListRebuild
from icefloe.repair.metadata_commit import REPLACED_KEY, RepairedDocument, as_metadata, check_unchanged, commit_document, decode_whole
from icefloe.repair.metadata_correction import CORRECTIONS
from icefloe.repair.metadata_rebuild import rebuild_document
from icefloe.repair.metadata_search import FoundMetadata, lists_of_lost_commits, search_metadata
from icefloe.repair.repair_plan import LeftFinding, PlannedRepair, RepairChange, RepairPlan, RepairResult, left_finding, planned_repair
from icefloe.repair.repaired_snapshot import REPAIR_KEY, RepairedSnapshot, SnapshotEdits, UndoneSnapshot
from icefloe.repair.snapshot_planner import SnapshotPlanner
from icefloe.spec.identifier import dotted
from icefloe.spec.metadata.json_file import inflate, parse_json
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.stores.replace_location import replace_location

# The most findings of one rule that one plan repairs; further ones are left to the next plan.
MOST_REPAIRED = 100_000
_UNREADABLE = (FormatError, UnsupportedError, NoSuchFileError, StoragePermissionError, InvalidInputError)
_LOST = frozenset(("metadata-missing", "metadata-damaged"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """What a plan checks, and which repairs it chooses.

    Attributes:
        only: Ids of repairs; the id of a rule chooses the rule's default repairs. If empty, all default repairs are chosen.
        branch: The branch whose newest snapshot is repaired.
        files: Check that each file exists and has the stated size.
        data: Check footers of data files, delete files and statistics files too.
    """

    only: tuple[str, ...] = ()
    branch: str = MAIN
    files: bool = True
    data: bool = False

    @property
    def depths(self) -> frozenset[Depth]:
        """What the validation reads beyond metadata."""
        return frozenset((Depth.DATA,) if self.data else (Depth.FILES,) if self.files else ())


@dataclass(slots=True)
class _Draft:
    """A plan that is being made: the findings, the repairs, why findings are left, and the function that applies the plan."""

    findings: list[Finding]
    counts: Counter[str]
    repairs: list[PlannedRepair] = field(default_factory=list)
    why: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    apply: Callable[[], RepairResult] | None = None
    undo: str = ""

    def of(self, kind: RepairKind) -> list[Finding]:
        """Return the findings that a kind of repair corrects."""
        return [finding for finding in self.findings if finding.rule in kind.rules]

    def left(self) -> tuple[LeftFinding, ...]:
        """Return, for each rule with findings that remain after the plan, their number and the reasons why no chosen repair corrects them."""
        planned = {rule for repair in self.repairs for rule in repair.rules}
        mended = {rule for repair in self.repairs if repair.is_chosen for rule in repair.rules}
        left = []
        for rule, count in self.counts.items():
            reasons = self.why.get(rule, [])
            if count and (reasons or rule not in mended):
                why = "; ".join(dict.fromkeys(reasons)) or ("its repair is not chosen" if rule in planned else "no repair mends it")
                left.append(left_finding(rule, count if rule not in mended else len(reasons), why))
        return tuple(left)


def plan_table(handle: TableHandle, location: str, options: RepairOptions, progress: ValidationProgress | None = None) -> RepairPlan:
    """Plan the repairs of a table. Nothing is changed.

    Args:
        handle: The table, which need not be loadable.
        location: The metadata file that the catalog names.
        options: What is checked, and which repairs are chosen.
        progress: Is updated during the validation.

    Raises:
        InvalidInputError: `only` has a name that is not a repair's or rule's.
        NoSuchSnapshotError: The table has no such branch.
        UnsupportedError, StoragePermissionError: The metadata file has a later format version, or access to it is denied.
        StorageUnavailableError: The storage does not respond.
    """
    chosen = chosen_kinds(options.only)
    if handle.store.writes_metadata and not options.only:
        chosen = frozenset(repair_id for repair_id in chosen if REPAIR_BY_ID[repair_id].scope is not Scope.METADATA)
    loaded = _load_metadata(handle, location)
    snapshot = None if loaded is None else _head(loaded, options.branch, handle.table_name)
    draft = _validate(handle, location, options, snapshot, progress, None if loaded is None else loaded.metadata)
    document = _document(handle, location)
    if document is not None:
        _plan_metadata(handle, location, document, loaded, draft, chosen)
        if handle.store.writes_metadata:
            for rule in (rule for repair in draft.repairs if not repair.is_chosen for rule in repair.rules):
                draft.why[rule].append(
                    f"catalog {handle.store.name} writes metadata files itself: repair it where the server keeps its tables"
                )
    is_repairable = draft.apply is not None or loaded is not None
    if not is_repairable or any(finding.rule == "metadata-newer" for finding in draft.findings):
        _plan_restore(handle, location, draft, chosen, is_lost=loaded is None)
    if loaded is not None and snapshot is not None:
        _plan_snapshot(handle, loaded, snapshot, options, draft, chosen)
    return RepairPlan(
        table=handle.table_name,
        metadata_location=location,
        branch=options.branch,
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        repairs=tuple(draft.repairs),
        left=draft.left(),
        undo=draft.undo if draft.apply is not None else "",
        _apply=draft.apply,
    )


def undo_command(handle: TableHandle, branch: str = MAIN, metadata_file: str = "") -> str:
    """Return the command that undoes the last repair of a table.

    Args:
        handle: The table.
        branch: The branch that was repaired.
        metadata_file: The metadata file of a table that the repair dropped from the catalog; otherwise empty.
    """
    words = ["icefloe", "repair", dotted(handle.identifier), "--catalog", handle.store.name, "--undo"]
    words += ["--branch", branch] if branch != MAIN else []
    words += ["--metadata-file", metadata_file] if metadata_file else []
    return shlex.join(words)


def _load_metadata(handle: TableHandle, location: str) -> LoadedMetadata | None:
    """Return the metadata of a table; None if the file is missing or damaged.

    Raises:
        UnsupportedError, StoragePermissionError: The file has a later format version, or access to it is denied, so that it is not lost.
    """
    try:
        stored = handle.store.load(handle.identifier)
        loaded = metadata_of(handle.io, stored) if stored.metadata_location == location else read_metadata_at(handle.io, location)
        decode_whole(loaded.metadata)
    except (FormatError, NoSuchFileError, InvalidInputError, LocationNotAllowedError):
        return None
    return loaded


def _document(handle: TableHandle, location: str) -> dict[str, Any] | None:
    """Return the JSON of a metadata file; None if the file is missing or damaged."""
    try:
        document = parse_json(inflate(handle.io.read(location), location), location)
    except _UNREADABLE:
        return None
    return document if isinstance(document, dict) else None


def _head(loaded: LoadedMetadata, branch: str, table: str) -> Snapshot | None:
    metadata = loaded.metadata
    ref = metadata.refs.get(branch)
    if ref is None and (branch != MAIN or metadata.current_snapshot_id is not None):
        raise NoSuchSnapshotError(f"{table} has no branch {branch!r}", table=table, next_step="choose one that icefloe refs lists")
    if ref is not None and not ref.is_branch:
        raise InvalidInputError(f"{branch!r} is a tag, whose snapshot stays what it is", table=table, next_step="name a branch")
    return None if ref is None else metadata.snapshot_by_id(ref.snapshot_id)


def _validate(
    handle: TableHandle,
    location: str,
    options: RepairOptions,
    snapshot: Snapshot | None,
    progress: ValidationProgress | None,
    metadata: TableMetadata | None,
) -> _Draft:
    """Validate the branch's newest snapshot and the metadata file. Return the draft of a plan, with the findings and still without repairs."""
    arguments = ValidationArguments(
        snapshot=None if snapshot is None else str(snapshot.snapshot_id), depths=options.depths, most_findings=MOST_REPAIRED
    )
    sent = metadata if has_no_file(location) else None
    result = validate_table(handle.table_name, location, handle.io, arguments, progress, sent)
    findings = [*result.findings, *location_findings(location, handle.io)]
    counts = Counter(result.counts)
    counts.update(finding.rule for finding in findings[len(result.findings) :])
    draft = _Draft(findings=findings, counts=counts)
    sizes = [finding for finding in findings if finding.rule == "file-size"]
    if sizes and Depth.FILES in options.depths:
        _measure(handle, location, draft, sizes)
    return draft


def _measure(handle: TableHandle, location: str, draft: _Draft, sizes: Sequence[Finding]) -> None:
    """Add the findings about the content of files whose size is wrong: such a file may be damaged, or only its entry may be wrong."""
    document = _document(handle, location)
    if document is None:
        return
    content, _ = read_content(document, location)
    types = content.partition_types()
    check = FileCheck(layout=layout_of(handle.io, content), partition_types=types, depths=frozenset({Depth.DATA}), most=MOST_REPAIRED)
    known = {(finding.rule, finding.file, finding.entry) for finding in draft.findings}
    positions: dict[str, set[int]] = defaultdict(set)
    for size in sizes:
        if size.file is not None and size.entry is not None:
            positions[size.file].add(size.entry)
    manifests = _manifests_of(handle, content, sizes[0].snapshot_id)
    for path, chosen in positions.items():
        if path not in manifests:
            continue
        task = FileTask(manifest=manifests[path], snapshot_id=sizes[0].snapshot_id or 0, positions=tuple(sorted(chosen)))
        for size in check(task).kept:
            if (size.rule, size.file, size.entry) not in known:
                draft.findings.append(replace(size, table=handle.table_name))
                draft.counts[size.rule] += 1


def _manifests_of(handle: TableHandle, content: TableContent, snapshot_id: int | None) -> Mapping[str, Any]:
    snapshot = content.snapshots.get(snapshot_id or 0)
    return {} if snapshot is None else manifests_by_path(handle.io, snapshot)


def _add(draft: _Draft, kind: RepairKind, changes: list[RepairChange], rules: Iterable[str], *, is_chosen: bool, text: str = "") -> None:
    draft.repairs.append(planned_repair(kind.id, changes, set(rules), is_chosen=is_chosen, text=text))


# The metadata file


def _plan_metadata(
    handle: TableHandle, location: str, document: dict[str, Any], loaded: LoadedMetadata | None, draft: _Draft, chosen: frozenset[str]
) -> None:
    """Plan the corrections of the metadata file's own fields, and the rebuilding of lost manifest lists of all snapshots."""
    changed: Mapping[str, Any] = document
    done: list[str] = []
    planned: list[tuple[RepairKind, list[RepairChange], set[str]]] = []
    for kind, correct in CORRECTIONS:
        findings = draft.of(kind)
        if not findings:
            continue
        changes = [RepairChange(what=finding.message, path=finding.path or "") for finding in findings]
        planned.append((kind, changes, {finding.rule for finding in findings}))
        if kind.id in chosen:
            changed = correct(changed, findings)
            done.append(kind.id)
    files: list[NewFile] = []
    if loaded is not None:
        changed, files, lists = _rebuilt_lists(handle, loaded, changed, draft, is_chosen=kinds.REBUILD_MANIFEST_LISTS.id in chosen)
        if lists:
            rules = {*kinds.REBUILD_MANIFEST_LISTS.rules, "summary-total"} & draft.counts.keys()
            planned.append((kinds.REBUILD_MANIFEST_LISTS, lists, rules))
            done += [kinds.REBUILD_MANIFEST_LISTS.id] if kinds.REBUILD_MANIFEST_LISTS.id in chosen else []
    is_whole = bool(done) and _is_readable(changed, location)
    for kind, changes, rules in planned:
        _add(draft, kind, changes, rules, is_chosen=is_whole and kind.id in done)
    if is_whole:
        repaired = RepairedDocument(document=changed, replaced=location, files=files)
        _set_metadata_commit(handle, draft, repaired, tuple(done))


def _rebuilt_lists(
    handle: TableHandle, loaded: LoadedMetadata, document: Mapping[str, Any], draft: _Draft, *, is_chosen: bool
) -> tuple[Mapping[str, Any], list[NewFile], list[RepairChange]]:
    """Rebuild the lost manifest lists of all snapshots, as far as possible.

    Returns:
        The metadata with the new manifest lists, the files of these lists, and the changes for the plan.
    """
    lost = lost_lists(handle.io, loaded.metadata)
    # Wrong totals can mean that the manifest list was cut between two blocks. A rebuilt list has the right totals then.
    suspects = {
        finding.snapshot_id: finding.rule
        for finding in draft.findings
        if finding.rule == "summary-total" and finding.snapshot_id is not None
    }
    lost |= {snapshot_id: rule for snapshot_id, rule in suspects.items() if snapshot_id not in lost}
    if not lost:
        return document, [], []
    rebuild = ManifestListRebuild(handle, loaded.metadata, list(lost))
    rebuilt = rebuild.rebuilt()
    locations = {rebuilt_list.snapshot.snapshot_id: rebuilt_list.file.location for rebuilt_list in rebuilt}
    for snapshot_id, rule in lost.items():
        draft.counts[rule] = max(draft.counts[rule], 1)
        if snapshot_id not in locations and rule != "summary-total":
            draft.why[rule].append(f"snapshot {snapshot_id}: {rebuild.why.get(snapshot_id, 'its manifests are not known')}")
    changes = [
        RepairChange(
            what=f"the list of snapshot {rebuilt_list.snapshot.snapshot_id} is written again with {len(rebuilt_list.manifests)} manifests",
            path=rebuilt_list.snapshot.manifest_list or "",
        )
        for rebuilt_list in rebuilt
    ]
    if not is_chosen or not rebuilt:
        return document, [], changes
    snapshots = [
        {**snapshot, "manifest-list": locations[snapshot["snapshot-id"]]} if snapshot.get("snapshot-id") in locations else snapshot
        for snapshot in document["snapshots"]
    ]
    return {**document, "snapshots": snapshots}, [rebuilt_list.file for rebuilt_list in rebuilt], changes


def _is_readable(document: Mapping[str, Any], location: str) -> bool:
    try:
        as_metadata(document, location)
    except (*_UNREADABLE, RecursionError):
        return False
    return True


def _set_metadata_commit(handle: TableHandle, draft: _Draft, repaired: RepairedDocument, done: tuple[str, ...]) -> None:
    def apply() -> RepairResult:
        new = commit_document(handle, repaired)
        return RepairResult(
            table=handle.table_name,
            repairs=done,
            metadata_location=new,
            undo=undo_command(handle),
            next_step="validate the table again, and repair what its newest snapshot still needs",
        )

    draft.apply, draft.undo = apply, undo_command(handle)


# Metadata files that are lost


def _plan_restore(handle: TableHandle, location: str, draft: _Draft, chosen: frozenset[str], *, is_lost: bool) -> None:
    """Plan the alternative repairs of a metadata file that cannot be loaded, or is not the newest."""
    rules = {rule for rule in kinds.RESTORE_METADATA.rules if draft.counts[rule]} or (set(_LOST) if is_lost else set())
    if not is_lost:
        _plan_newer(handle, location, draft, chosen)
        return
    search = search_metadata(handle, location)
    ways: list[tuple[RepairKind, Callable[[], None]]] = []
    newest = search.newest
    if newest is None:
        for rule in rules:
            draft.why[rule].append(search.why)
    else:
        known = [snapshot.snapshot_id for snapshot in newest.metadata.snapshots]
        later = lists_of_lost_commits(search, known)
        what = f"the table is that of {newest.location}, version {newest.version}"
        lost = f"; {len(later)} manifest lists in the folder are of snapshots that it does not have" if later else ""
        ways.append(
            (kinds.RESTORE_METADATA, lambda: _set_restored(handle, location, draft, newest, dict(newest.document), kinds.RESTORE_METADATA))
        )
        _add(draft, kinds.RESTORE_METADATA, [RepairChange(what=what + lost, path=newest.location)], rules, is_chosen=False)
    document, chain, why = rebuild_document(handle, location, search)
    if document is None:
        for rule in rules:
            draft.why[rule].append(why)
    else:
        changes = [
            RepairChange(what=f"snapshot {stored_list.snapshot_id} is that of the list", path=stored_list.path) for stored_list in chain
        ]
        rebuilt = document
        ways.append((kinds.REBUILD_METADATA, lambda: _set_restored(handle, location, draft, newest, rebuilt, kinds.REBUILD_METADATA)))
        _add(draft, kinds.REBUILD_METADATA, changes, rules, is_chosen=False)
    what = f"the catalog has no {dotted(handle.identifier)} any more, and the files stay"
    _add(draft, kinds.DROP_TABLE, [RepairChange(what=what, path=location)], rules, is_chosen=False)
    ways.append((kinds.DROP_TABLE, lambda: _set_dropped(handle, location, draft)))
    _choose_one(draft, ways, chosen)


def _choose_one(draft: _Draft, ways: Sequence[tuple[RepairKind, Callable[[], None]]], chosen: frozenset[str]) -> None:
    """Choose the one alternative that the user named.

    Raises:
        InvalidInputError: The user named several.
    """
    named = [(kind, choose) for kind, choose in ways if kind.id in chosen]
    if len(named) > 1:
        raise InvalidInputError(
            f"{' and '.join(kind.id for kind, _ in named)} exclude each other", next_step="name one of them with --only"
        )
    for kind, choose in named:
        choose()
        draft.repairs = [replace(repair, is_chosen=repair.repair == kind.id) for repair in draft.repairs]


def _set_restored(
    handle: TableHandle, location: str, draft: _Draft, newest: FoundMetadata | None, document: dict[str, Any], kind: RepairKind
) -> None:
    predecessors = () if newest is None or newest.location == location else ((newest.metadata.last_updated_ms, newest.location),)
    _set_metadata_commit(handle, draft, RepairedDocument(document=document, replaced=location, predecessors=predecessors), (kind.id,))


def _set_dropped(handle: TableHandle, location: str, draft: _Draft) -> None:
    def apply() -> RepairResult:
        if handle.store.drops_files:
            raise UnsupportedFeatureError(
                f"catalog {handle.store.name} deletes the folder of a table that is dropped, and a repair deletes no file",
                table=handle.table_name,
                next_step="move the table's folder out of the warehouse, which removes the name",
            )
        if not handle.store.drop(handle.identifier, expected=location):
            check_unchanged(handle, location)
        return RepairResult(table=handle.table_name, repairs=(kinds.DROP_TABLE.id,), undo=draft.undo)

    draft.apply, draft.undo = apply, undo_command(handle, metadata_file=location)


def _plan_newer(handle: TableHandle, location: str, draft: _Draft, chosen: frozenset[str]) -> None:
    """Plan to continue with the newest metadata file that succeeds the one of the catalog."""
    newer = next(finding for finding in draft.findings if finding.rule == "metadata-newer")
    document = None if newer.path is None else _document(handle, newer.path)
    if newer.path is None or document is None or not _is_readable(document, newer.path):
        draft.why["metadata-newer"].append("the newer file cannot be read")
        return
    metadata = as_metadata(document, newer.path)
    newest = FoundMetadata(location=newer.path, version=0, metadata=metadata, document=document)
    is_chosen = kinds.FOLLOW_NEWER_METADATA.id in chosen and draft.apply is None
    change = RepairChange(what="the table is that of the newer file", path=newer.path)
    _add(draft, kinds.FOLLOW_NEWER_METADATA, [change], ("metadata-newer",), is_chosen=is_chosen)
    if is_chosen:
        _set_restored(handle, location, draft, newest, document, kinds.FOLLOW_NEWER_METADATA)


# The newest snapshot


def _plan_snapshot(
    handle: TableHandle, loaded: LoadedMetadata, snapshot: Snapshot, options: RepairOptions, draft: _Draft, chosen: frozenset[str]
) -> None:
    """Plan the repairs of the branch's newest snapshot. If the metadata file is repaired first, they are planned for the next run."""
    is_next = draft.apply is not None
    planner = SnapshotPlanner(handle, loaded, options.branch, snapshot, chosen)
    edits = planner.plan(draft.findings)
    for rule, reasons in planner.left.items():
        draft.why[rule] += reasons
    for kind in kinds.REPAIRS:
        recorded = planner.recorded.get(kind.id)
        if recorded is not None:
            text = f"{kind.title}; in a commit of its own, after that of the metadata file: repair again" if is_next else ""
            _add(draft, kind, recorded.changes, recorded.rules, is_chosen=kind.id in chosen and not is_next, text=text)
    if edits is not None and not is_next:
        _set_snapshot_commit(handle, loaded, options.branch, edits, draft)


def _set_snapshot_commit(handle: TableHandle, loaded: LoadedMetadata, branch: str, edits: SnapshotEdits, draft: _Draft) -> None:
    done = [repair for repair in draft.repairs if repair.is_chosen]
    undo = undo_command(handle, branch)

    def apply() -> RepairResult:
        check_unchanged(handle, loaded.location)
        context = snapshot_context(handle, loaded.metadata, {}, branch)
        report = commit(handle, RepairedSnapshot(context, edits), loaded)
        return RepairResult(
            table=handle.table_name,
            repairs=edits.repairs,
            snapshot_id=context.snapshot_id,
            metadata_location=report.loaded.location,
            rows_lost=sum(sum(repair.rows_lost.values()) for repair in done),
            rows_back=sum(sum(repair.rows_back.values()) for repair in done),
            undo=undo,
        )

    draft.apply, draft.undo = apply, undo


# Undo


def undo_table(handle: TableHandle, *, branch: str = MAIN, metadata_file: str | None = None) -> RepairResult:
    """Undo the last repair of a table, if nothing was committed after it. No file is deleted.

    Args:
        handle: The table.
        branch: The branch that was repaired.
        metadata_file: The metadata file of a table that a repair dropped from the catalog.

    Returns:
        The repair that was undone.

    Raises:
        InvalidInputError: The last commit was not a repair.
        TableAlreadyExistsError: `metadata_file` is given, but the catalog has a table of this name.
        CommitInvalidatedError, CommitConflictError: Another writer changed the table during the undo.
    """
    if metadata_file is not None:
        return _undo_drop(handle, metadata_file)
    loaded = load_metadata(handle)
    metadata = loaded.metadata
    replaced, log = metadata.properties.get(REPLACED_KEY), metadata.metadata_log
    if replaced is not None and len(log) and log[len(log) - 1].metadata_file == replaced:
        location = replace_location(handle.store, handle.identifier, replaced, expected=loaded.location)
        return RepairResult(table=handle.table_name, repairs=("undo",), metadata_location=location)
    ref = metadata.refs.get(branch)
    snapshot = None if ref is None else metadata.snapshot_by_id(ref.snapshot_id)
    if snapshot is None or REPAIR_KEY not in snapshot.summary or snapshot.parent_snapshot_id is None:
        raise InvalidInputError(
            f"the last commit to {branch} of {handle.table_name} was no repair",
            table=handle.table_name,
            next_step="roll the branch back to an older snapshot with icefloe rollback",
        )
    report = commit(handle, UndoneSnapshot(branch, snapshot.snapshot_id, snapshot.parent_snapshot_id), loaded)
    return RepairResult(
        table=handle.table_name,
        repairs=(f"undo of {snapshot.summary[REPAIR_KEY]}",),
        snapshot_id=snapshot.parent_snapshot_id,
        metadata_location=report.loaded.location,
    )


def _undo_drop(handle: TableHandle, metadata_file: str) -> RepairResult:
    try:
        current = handle.store.load(handle.identifier).metadata_location
    except NoSuchTableError:
        location = handle.store.create(handle.identifier, metadata_file)
        return RepairResult(table=handle.table_name, repairs=("undo of drop-table",), metadata_location=location)
    raise TableAlreadyExistsError(
        f"{handle.table_name} exists, with the metadata file {current}",
        table=handle.table_name,
        next_step="leave --metadata-file out to undo the last repair of the table",
    )
