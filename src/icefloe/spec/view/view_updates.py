"""Changes of a view's metadata: the updates of a commit, their application in order with the rules between them, and the first metadata of a view.

The JSON of updates and of the requirement is the JSON of commits in the REST catalog. Updates that also exist for tables use the same classes
(`spec/metadata/table_updates.py`, `layout_updates.py`).
Spec: REST catalog, ViewUpdate, ViewRequirement; View spec, Versions; View spec, Version log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icefloe.errors import CommitConflictError, InvalidInputError, Problem, UnsupportedFormatVersionError
from icefloe.spec.metadata.layout_updates import LAST_ADDED, AddSchema
from icefloe.spec.metadata.raw_entries import RawEntries
from icefloe.spec.metadata.table_updates import AssignUUID, RemoveProperties, SetLocation, SetProperties, UpgradeFormatVersion
from icefloe.spec.metadata.update_json import UPDATE_FORMS, JsonForm, named_from_json, named_to_json
from icefloe.spec.schema.json_shape import Key, a_string, an_int, an_object
from icefloe.spec.schema.schema import Schema
from icefloe.spec.view import view_properties
from icefloe.spec.view.view_metadata import VIEW_FORMAT_VERSION, ViewMetadata, dialect_problems, view_problems
from icefloe.spec.view.view_version import VersionLogEntry, ViewVersion, view_version_from_json, view_version_to_json


@dataclass(frozen=True, slots=True)
class AddViewVersion:
    """An update that adds a version to a view.

    The version gets the next id, unless its own id is higher than every existing id. It is not added if a version with the same definition exists. A
    `schema_id` of -1 is the schema that the same commit added last.
    """

    version: ViewVersion


@dataclass(frozen=True, slots=True)
class SetCurrentViewVersion:
    """An update that makes a version of the view the current one. -1 is the version that the same commit added last."""

    version_id: int


ViewUpdate = (
    AssignUUID | UpgradeFormatVersion | AddSchema | SetLocation | SetProperties | RemoveProperties | AddViewVersion | SetCurrentViewVersion
)


@dataclass(frozen=True, slots=True)
class AssertViewUUID:
    """The requirement that the view exists and still has this UUID."""

    uuid: str

    def check(self, view: ViewMetadata | None) -> None:
        """Raise an error if the view has a different UUID, or does not exist.

        Raises:
            CommitConflictError: The view has a different UUID, or was dropped.
        """
        if view is None:
            raise CommitConflictError(
                "the view does not exist any more: another writer dropped or renamed it",
                problems=(Problem(where="expected", what=f"a view with uuid {self.uuid}"), Problem(where="found", what="no view")),
                next_step="a retry will fail again as long as no view has the name: check the name",
            )
        if view.view_uuid.lower() != self.uuid.lower():
            raise CommitConflictError(
                f"the view uuid is {view.view_uuid} instead of {self.uuid}: another writer replaced the view",
                problems=(
                    Problem(where="expected", what=f"view uuid: {self.uuid}"),
                    Problem(where="found", what=f"view uuid: {view.view_uuid}"),
                ),
                next_step="a retry will fail again: this is another view with the same name; load it again",
            )


def new_view_metadata(
    *, view_uuid: str, location: str, schema: Schema, version: ViewVersion, properties: Mapping[str, str] | None = None
) -> ViewMetadata:
    """Return the first metadata of a view, with one schema and one version. The version log has the version's own timestamp.

    Args:
        view_uuid: UUID of the view.
        location: Folder of the view.
        schema: Columns of the view.
        version: The first version.
        properties: Properties of the view.

    Raises:
        InvalidInputError: The version has no representation, or it has several SQL representations of the same dialect.
        InvalidPropertyError: A property has an invalid value.
    """
    property_texts = dict(properties or {})
    view_properties.check_view_properties(property_texts)
    first = replace(version, schema_id=0)
    _check_version(first)
    metadata = ViewMetadata(
        view_uuid=view_uuid,
        location=location.rstrip("/"),
        schemas=(Schema(*schema.fields, schema_id=0, identifier_field_ids=schema.identifier_field_ids),),  # type: ignore[arg-type]
        current_version_id=first.version_id,
        versions=(first,),  # type: ignore[arg-type]
        version_log=(VersionLogEntry(first.timestamp_ms, first.version_id),),  # type: ignore[arg-type]
        properties=property_texts,
    )
    _check_view(metadata)
    return metadata


def apply_view_updates(view: ViewMetadata, updates: Sequence[ViewUpdate], now_ms: int) -> ViewMetadata:
    """Apply every update of one commit in order.

    A change of the current version is added to the version log, with the timestamp of the version if it is new. The oldest versions beyond
    `version.history.num-entries` are removed, and the log up to the last entry of a removed version.

    Args:
        view: The base metadata.
        updates: The updates.
        now_ms: The current time, in milliseconds since 1970-01-01 UTC.

    Raises:
        InvalidInputError: An update cannot be applied, or the new current version lacks a dialect of the previous version, which
            `replace.drop-dialect.allowed` forbids.
    """
    builder = _ViewMetadataBuilder(view)
    for update in updates:
        builder.apply(update)
    changed = builder.view
    if changed.current_version_id != view.current_version_id:
        at_ms = changed.version().timestamp_ms if changed.current_version_id in builder.added else now_ms
        entry = VersionLogEntry(at_ms, changed.current_version_id)
        changed = replace(changed, version_log=changed.version_log.with_entries(entry))
    _check_dialects(view.version(), changed)
    changed = _without_old_versions(changed, keep=len(builder.added | {changed.current_version_id}))
    _check_view(changed)
    return changed


class _ViewMetadataBuilder:
    """The state during the application of updates: the changed metadata, and the ids that were added. JAVA: ViewMetadata.Builder."""

    def __init__(self, view: ViewMetadata) -> None:
        self.view = view
        self.added: frozenset[int] = frozenset()  # version ids
        self._last_schema_id: int | None = None
        self._last_version_id: int | None = None

    def apply(self, update: ViewUpdate) -> None:
        """Apply one update."""
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
        same = same_schema_of(self.view, schema)
        schema_id = same.schema_id if same is not None else new_schema_id(self.view)
        if same is None:
            added = Schema(*schema.fields, schema_id=schema_id, identifier_field_ids=schema.identifier_field_ids)
            self.view = replace(self.view, schemas=self.view.schemas.with_entries(added))
        self._last_schema_id = schema_id

    def _add_version(self, version: ViewVersion) -> None:
        if version.schema_id == LAST_ADDED:
            if self._last_schema_id is None:
                raise InvalidInputError(f"{LAST_ADDED} is the schema last added by the same commit, and this commit added none")
            version = replace(version, schema_id=self._last_schema_id)
        if self.view.schemas.position(version.schema_id) is None:
            raise InvalidInputError(f"the view has no schema {version.schema_id}", next_step="add the schema before the version")
        _check_version(version)
        same = next((existing for existing in self.view.versions if existing.is_same_as(version)), None)
        if same is not None:
            self._last_version_id = same.version_id
            return
        # Ids increase, because the versions with the highest ids are kept. JAVA: ViewMetadata.Builder.reuseOrCreateNewViewVersionId.
        version = replace(version, version_id=max(version.version_id, max(self.view.versions.ids()) + 1))
        self.view = replace(self.view, versions=self.view.versions.with_entries(version))
        self._last_version_id = version.version_id
        self.added |= {version.version_id}

    def _set_current(self, version_id: int) -> None:
        if version_id == LAST_ADDED:
            if self._last_version_id is None:
                raise InvalidInputError(f"{LAST_ADDED} is the version last added by the same commit, and this commit added none")
            version_id = self._last_version_id
        if self.view.versions.position(version_id) is None:
            raise InvalidInputError(f"the view has no version {version_id}")
        self.view = replace(self.view, current_version_id=version_id)


def same_schema_of(view: ViewMetadata, schema: Schema) -> Schema | None:
    """Return the schema of a view with the same columns and identifier fields, or None. Schema ids are ignored."""
    equal_fields = (existing for existing in view.schemas if existing.fields == schema.fields)
    return next((existing for existing in equal_fields if set(existing.identifier_field_ids) == set(schema.identifier_field_ids)), None)


def new_schema_id(view: ViewMetadata) -> int:
    """Return the id for the next schema of a view."""
    return max(view.schemas.ids(), default=-1) + 1


def _check_version(version: ViewVersion) -> None:
    if not version.representations:
        raise InvalidInputError("a view version needs a representation", next_step="pass the SQL of at least one dialect")
    problems = list(dialect_problems(version, "version"))
    if problems:
        raise InvalidInputError("a view version has at most one SQL representation of a dialect", problems=problems)


def _check_dialects(before: ViewVersion, changed: ViewMetadata) -> None:
    """Refuse a new version that lacks a dialect of the previous version, unless `replace.drop-dialect.allowed` is true.

    JAVA: ViewMetadata.Builder.checkIfDialectIsDropped.
    """
    lost = set(before.dialects) - set(changed.version().dialects)
    if lost and not view_properties.REPLACE_DROP_DIALECT_ALLOWED.read(changed.properties):
        raise InvalidInputError(
            f"the new version has no SQL in dialect {', '.join(sorted(lost))}, which the current one has",
            next_step=f"add it, or set the view property {view_properties.REPLACE_DROP_DIALECT_ALLOWED.name} to true",
        )


def _without_old_versions(view: ViewMetadata, keep: int) -> ViewMetadata:
    """Return the view with only its current version and the versions with the highest ids.

    The number of versions is the view property `version.history.num-entries`, but at least `keep`.
    """
    limit = max(keep, view_properties.VERSION_HISTORY_NUM_ENTRIES.read(view.properties))
    if len(view.versions) <= limit:
        return view
    newest = sorted(view.versions.ids() - {view.current_version_id}, reverse=True)
    dropped = frozenset(newest[limit - 1 :])
    return replace(view, versions=view.versions.without(dropped), version_log=_log_without(view.version_log, dropped))


def _log_without(log: RawEntries[VersionLogEntry], dropped: frozenset[int]) -> RawEntries[VersionLogEntry]:
    """Return the log after the last entry of a removed version, so that the log has no gaps."""
    last = max((position for position, entry in enumerate(log) if entry.version_id in dropped), default=-1)
    return log.without_first(last + 1)


def _check_view(view: ViewMetadata) -> None:
    problems = list(view_problems(view))
    if problems:
        raise InvalidInputError("the changed view metadata would violate the format", problems=problems)


_SHARED = ("assign-uuid", "upgrade-format-version", "add-schema", "set-location", "set-properties", "remove-properties")

VIEW_UPDATE_FORMS: Mapping[str, JsonForm] = {
    **{action: UPDATE_FORMS[action] for action in _SHARED},
    "add-view-version": JsonForm(
        AddViewVersion,
        (Key("view-version", an_object),),
        lambda value, path: AddViewVersion(view_version_from_json(value["view-version"], f"{path}.view-version")),
        lambda update: {"view-version": view_version_to_json(update.version)},
    ),
    "set-current-view-version": JsonForm(
        SetCurrentViewVersion,
        (Key("view-version-id", an_int),),
        lambda value, _: SetCurrentViewVersion(value["view-version-id"]),
        lambda update: {"view-version-id": update.version_id},
    ),
}
VIEW_REQUIREMENT_FORMS: Mapping[str, JsonForm] = {
    "assert-view-uuid": JsonForm(
        AssertViewUUID,
        (Key("uuid", a_string),),
        lambda value, _: AssertViewUUID(value["uuid"]),
        lambda requirement: {"uuid": requirement.uuid},
    )
}


def view_update_to_json(update: ViewUpdate) -> dict[str, Any]:
    """Return an update as a JSON object with its `action`.

    Spec: REST catalog, ViewUpdate.
    """
    return named_to_json(update, "action", VIEW_UPDATE_FORMS)


def view_update_from_json(value: object, path: str = "$") -> ViewUpdate:
    """Return the update that parsed JSON describes.

    Raises:
        MetadataFormatError: Every problem is listed with its JSON path, starting with `path`.
        UnsupportedFeatureError: The action is not supported for views. The supported actions are listed.
    """
    update: ViewUpdate = named_from_json(value, path, "action", VIEW_UPDATE_FORMS, "the view update")
    return update


def view_requirement_to_json(requirement: AssertViewUUID) -> dict[str, Any]:
    """Return a requirement as a JSON object with its `type`.

    Spec: REST catalog, ViewRequirement.
    """
    return named_to_json(requirement, "type", VIEW_REQUIREMENT_FORMS)


def view_requirement_from_json(value: object, path: str = "$") -> AssertViewUUID:
    """Return the requirement that parsed JSON describes. It raises the errors of `view_update_from_json`."""
    requirement: AssertViewUUID = named_from_json(value, path, "type", VIEW_REQUIREMENT_FORMS, "the view requirement")
    return requirement
