"""Changes of a view's metadata: the updates of one commit, applied in order with the rules that join them; and a new view's first metadata.

Updates that tables have too are the tables' values (`kernel/metadata/table_updates.py`, `update_layout.py`), which say here something of a view.
Spec: REST catalog, ViewUpdate, ViewRequirement; View spec, Versions; View spec, Version log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icefloe.errors import CommitConflictError, InvalidInputError, Problem, UnsupportedFormatVersionError
from icefloe.kernel.metadata.layout_updates import LAST_ADDED, AddSchema
from icefloe.kernel.metadata.raw_entries import RawEntries
from icefloe.kernel.metadata.table_updates import AssignUUID, RemoveProperties, SetLocation, SetProperties, UpgradeFormatVersion
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.view import view_properties
from icefloe.kernel.view.view_metadata import VIEW_FORMAT_VERSION, ViewMetadata, dialect_problems, view_problems
from icefloe.kernel.view.view_version import VersionLogEntry, ViewVersion


@dataclass(frozen=True, slots=True)
class AddViewVersion:
    """Adds a version, under the next id where its own is not above all that are there. One that defines the same as a known one is not added again.

    A `schema_id` of -1 is the schema that the same commit added last.
    """

    version: ViewVersion


@dataclass(frozen=True, slots=True)
class SetCurrentViewVersion:
    """Makes a known version the current one; -1 is the one that the same commit added last."""

    version_id: int


ViewUpdate = (
    AssignUUID | UpgradeFormatVersion | AddSchema | SetLocation | SetProperties | RemoveProperties | AddViewVersion | SetCurrentViewVersion
)


@dataclass(frozen=True, slots=True)
class AssertViewUUID:
    """The view is still the same one."""

    uuid: str

    def check(self, view: ViewMetadata | None) -> None:
        """Raises `CommitConflictError` where it is another view, or gone."""
        if view is None:
            raise CommitConflictError(
                "the view is gone: another writer dropped or renamed it",
                problems=(Problem(where="expected", what=f"a view with uuid {self.uuid}"), Problem(where="found", what="no view")),
                next_step="a retry will fail again while the name is free: check it",
            )
        if view.view_uuid.lower() != self.uuid.lower():
            raise CommitConflictError(
                f"the view uuid was to be {self.uuid}, and is {view.view_uuid}: another writer replaced the view",
                problems=(
                    Problem(where="expected", what=f"view uuid: {self.uuid}"),
                    Problem(where="found", what=f"view uuid: {view.view_uuid}"),
                ),
                next_step="a retry will fail again: this is another view under the same name; load it anew",
            )


def new_view_metadata(
    *, view_uuid: str, location: str, schema: Schema, version: ViewVersion, given: Mapping[str, str] | None = None
) -> ViewMetadata:
    """The first metadata of a view: one schema, one version, which is the current one since its own time. `given` are its properties.

    Raises:
        InvalidInputError: the version has no representation, or several SQL ones of a dialect. InvalidPropertyError: a property is not what it may be.
    """
    settings = dict(given or {})
    view_properties.check_view_properties(settings)
    first = replace(version, schema_id=0)
    _check_version(first)
    made = ViewMetadata(
        view_uuid=view_uuid,
        location=location.rstrip("/"),
        schemas=(Schema(*schema.fields, schema_id=0, identifier_field_ids=schema.identifier_field_ids),),  # type: ignore[arg-type]
        current_version_id=first.version_id,
        versions=(first,),  # type: ignore[arg-type]
        version_log=(VersionLogEntry(first.timestamp_ms, first.version_id),),  # type: ignore[arg-type]
        properties=settings,
    )
    _refuse_broken(made)
    return made


def apply_view_updates(view: ViewMetadata, updates: Sequence[ViewUpdate], now_ms: int) -> ViewMetadata:
    """Every update of one commit in order. A changed current version is noted in the version log, with the time of the version where it is new; the oldest
    versions beyond `version.history.num-entries` are dropped, and the log up to them.

    Raises:
        InvalidInputError: an update cannot be applied, or the current version would lose a dialect that the one before has.
    """
    work = _Changes(view)
    for update in updates:
        work.apply(update)
    changed = work.view
    if changed.current_version_id != view.current_version_id:
        at_ms = changed.version().timestamp_ms if changed.current_version_id in work.added else now_ms
        entry = VersionLogEntry(at_ms, changed.current_version_id)
        changed = replace(changed, version_log=changed.version_log.appended(entry))
    _check_dialects(view.version(), changed)
    changed = _without_old_versions(changed, keep=len(work.added | {changed.current_version_id}))
    _refuse_broken(changed)
    return changed


class _Changes:
    """A view in the middle of a commit: what the updates so far made of it, and what they added."""

    def __init__(self, view: ViewMetadata) -> None:
        self.view = view
        self.added: frozenset[int] = frozenset()  # ids of versions
        self._last_schema_id: int | None = None
        self._last_version_id: int | None = None

    def apply(self, update: ViewUpdate) -> None:
        view = self.view
        match update:
            case AssignUUID(uuid):
                if uuid != view.view_uuid:
                    raise InvalidInputError(f"the view's uuid is {view.view_uuid} and cannot become {uuid}")
            case UpgradeFormatVersion(version):
                if version != VIEW_FORMAT_VERSION:
                    raise UnsupportedFormatVersionError(f"views have format version {VIEW_FORMAT_VERSION}, and cannot have {version}")
            case AddSchema(schema):
                self._add_schema(schema)
            case SetLocation(location):
                self.view = replace(view, location=location.rstrip("/"))
            case SetProperties(updates):
                view_properties.check_view_properties(updates)
                self.view = replace(view, properties={**view.properties, **updates})
            case RemoveProperties(removals):
                self.view = replace(view, properties={name: text for name, text in view.properties.items() if name not in removals})
            case AddViewVersion(added):
                self._add_version(added)
            case SetCurrentViewVersion(version_id):
                self._set_current(version_id)

    def _add_schema(self, schema: Schema) -> None:
        known = (one for one in self.view.schemas if one.fields == schema.fields)
        same = next((one for one in known if set(one.identifier_field_ids) == set(schema.identifier_field_ids)), None)
        schema_id = same.schema_id if same is not None else max(self.view.schemas.ids(), default=-1) + 1
        if same is None:
            added = Schema(*schema.fields, schema_id=schema_id, identifier_field_ids=schema.identifier_field_ids)
            self.view = replace(self.view, schemas=self.view.schemas.appended(added))
        self._last_schema_id = schema_id

    def _add_version(self, version: ViewVersion) -> None:
        if version.schema_id == LAST_ADDED:
            if self._last_schema_id is None:
                raise InvalidInputError(f"{LAST_ADDED} is the schema last added by the same commit, and this one added none")
            version = replace(version, schema_id=self._last_schema_id)
        if self.view.schemas.position(version.schema_id) is None:
            raise InvalidInputError(f"the view has no schema {version.schema_id}", next_step="add the schema before the version")
        _check_version(version)
        same = next((one for one in self.view.versions if one.is_same_as(version)), None)
        if same is not None:
            self._last_version_id = same.version_id
            return
        # Ids count up, since the newest versions by id are those that are kept. JAVA: ViewMetadata.Builder.reuseOrCreateNewViewVersionId.
        version = replace(version, version_id=max(version.version_id, max(self.view.versions.ids()) + 1))
        self.view = replace(self.view, versions=self.view.versions.appended(version))
        self._last_version_id = version.version_id
        self.added |= {version.version_id}

    def _set_current(self, version_id: int) -> None:
        if version_id == LAST_ADDED:
            if self._last_version_id is None:
                raise InvalidInputError(f"{LAST_ADDED} is the version last added by the same commit, and this one added none")
            version_id = self._last_version_id
        if self.view.versions.position(version_id) is None:
            raise InvalidInputError(f"the view has no version {version_id}")
        self.view = replace(self.view, current_version_id=version_id)


def _check_version(version: ViewVersion) -> None:
    if not version.representations:
        raise InvalidInputError("a view version without a representation says nothing", next_step="give it the SQL of at least one dialect")
    problems = list(dialect_problems(version, "version"))
    if problems:
        raise InvalidInputError("a view version has one SQL representation of a dialect at most", problems=problems)


def _check_dialects(before: ViewVersion, changed: ViewMetadata) -> None:
    """Refuses that engines of a dialect can no longer read the view. JAVA: ViewMetadata.Builder.checkIfDialectIsDropped."""
    lost = set(before.dialects) - set(changed.version().dialects)
    if lost and not view_properties.REPLACE_DROP_DIALECT_ALLOWED.read(changed.properties):
        raise InvalidInputError(
            f"the new version has no SQL in dialect {', '.join(sorted(lost))}, which the current one has",
            next_step=f"add it, or set the view property {view_properties.REPLACE_DROP_DIALECT_ALLOWED.name} to true",
        )


def _without_old_versions(view: ViewMetadata, keep: int) -> ViewMetadata:
    """The view with its newest versions by id, the current one among them; never fewer than `keep`."""
    most = max(keep, view_properties.VERSION_HISTORY_NUM_ENTRIES.read(view.properties))
    if len(view.versions) <= most:
        return view
    newest = sorted(view.versions.ids() - {view.current_version_id}, reverse=True)
    gone = frozenset(newest[most - 1 :])
    return replace(view, versions=view.versions.without(gone), version_log=_log_without(view.version_log, gone))


def _log_without(log: RawEntries[VersionLogEntry], gone: frozenset[int]) -> RawEntries[VersionLogEntry]:
    """The log from after its last entry of a version that is gone, so that it has no hole."""
    last = max((position for position, entry in enumerate(log) if entry.version_id in gone), default=-1)
    return log.without_first(last + 1)


def _refuse_broken(view: ViewMetadata) -> None:
    problems = list(view_problems(view))
    if problems:
        raise InvalidInputError("the change would make view metadata that breaks the rules of the format", problems=problems)
