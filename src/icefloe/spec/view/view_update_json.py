"""JSON of view updates and the view requirement, as in a REST catalog's commit. `view_updates.py` applies them.

Spec: REST catalog, ViewUpdate, ViewRequirement.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.spec.metadata.update_json import UPDATE_FORMS, JsonForm, named_from_json, named_to_json
from icefloe.spec.schema.json_shape import Key, a_string, an_int, an_object
from icefloe.spec.view.view_updates import AddViewVersion, AssertViewUUID, SetCurrentViewVersion, ViewUpdate
from icefloe.spec.view.view_version import view_version_from_json, view_version_to_json

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
        UnsupportedFeatureError: The action is unknown for views; the known ones are listed.
    """
    update: ViewUpdate = named_from_json(value, path, "action", VIEW_UPDATE_FORMS, "the view update")
    return update


def view_requirement_to_json(requirement: AssertViewUUID) -> dict[str, Any]:
    """Return a requirement as a JSON object with its `type`.

    Spec: REST catalog, ViewRequirement.
    """
    return named_to_json(requirement, "type", VIEW_REQUIREMENT_FORMS)


def view_requirement_from_json(value: object, path: str = "$") -> AssertViewUUID:
    """Return the requirement that parsed JSON describes; raises as `view_update_from_json` does."""
    requirement: AssertViewUUID = named_from_json(value, path, "type", VIEW_REQUIREMENT_FORMS, "the view requirement")
    return requirement
