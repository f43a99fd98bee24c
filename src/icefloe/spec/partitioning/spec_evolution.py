"""Partition evolution: functions that add, remove and rename the fields of a spec, and assign the field ids of a table's new spec.

Files of older specs are not rewritten. Spec: Partition Evolution.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from icefloe.errors import InvalidInputError, InvalidPartitionSpecError
from icefloe.spec.partitioning.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec, check_spec
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    is_time_transform,
)
from icefloe.spec.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionField:
    """The addition of a field. Without a name, it gets the name that Java gives it, such as `id_bucket_16`."""

    source_id: int
    transform: Transform
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePartitionField:
    """The removal of a field; new data is no longer partitioned by it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamePartitionField:
    """A new name for a field, which keeps its id."""

    name: str
    new_name: str


SpecChange = AddPartitionField | RemovePartitionField | RenamePartitionField


def evolve_spec(spec: PartitionSpec, changes: Iterable[SpecChange], schema: Schema, *, format_version: int) -> PartitionSpec:
    """Apply changes to a spec, in order.

    New fields get provisional ids, which `assign_spec_field_ids` replaces by the table's.

    Raises:
        InvalidPartitionSpecError: A change violates a rule; the message names the field, the rule and the next step.
    """
    state = PartitionSpecUpdate(spec, schema, format_version=format_version)
    for change in changes:
        state.apply(change)
    return state.build()


class PartitionSpecUpdate:
    """A spec to which changes are applied one after the other; each change sees the result of those before it. JAVA: BaseUpdatePartitionSpec."""

    def __init__(self, spec: PartitionSpec, schema: Schema, *, format_version: int) -> None:
        self._schema = schema
        self._format_version = format_version
        self._spec_id = spec.spec_id
        self._fields = list(spec.fields)
        self._removed: frozenset[int] = frozenset()  # ids of removed fields of the original spec
        self._original_ids = frozenset(field.field_id for field in spec.fields)

    def apply(self, change: SpecChange) -> SpecChange:
        """Apply one change completely, or not at all. Return the change; if it adds a field, with the name of the field.

        Raises:
            InvalidPartitionSpecError: The change violates a rule.
        """
        before = list(self._fields), self._removed
        try:
            match change:
                case AddPartitionField():
                    change = replace(change, name=self._add(change))
                case RemovePartitionField():
                    self._remove(self._find(change.name))
                case RenamePartitionField():
                    self._rename(self._find(change.name), change.new_name)
            # Unknown transforms are allowed here, because a later change may remove them; a table refuses to add a spec that still has one.
            check_spec(self.build(), self._schema, may_be_unknown=True)
        except InvalidInputError:
            self._fields, self._removed = before
            raise
        return change

    def build(self) -> PartitionSpec:
        """Return the new spec. In version 1 a removed field stays at its position as void, because readers identify fields by position."""
        fields: list[PartitionField] = []
        for field in self._fields:
            if field.field_id not in self._removed:
                fields.append(field)
            elif self._format_version == 1:
                fields.append(replace(field, transform=VoidTransform()))
        return PartitionSpec(*fields, spec_id=self._spec_id)

    def _add(self, change: AddPartitionField) -> str:
        name = change.name or _default_name(change, self._schema)
        if isinstance(change.transform, UnknownTransform):
            raise InvalidPartitionSpecError(
                f"partition field {name} cannot be added: there is no transform {str(change.transform)!r}",
                next_step="use one of identity, bucket[N], truncate[W], year, month, day, hour",
            )
        for field in self._fields:
            if (field.source_ids, field.transform) != ((change.source_id,), change.transform):
                continue
            if field.field_id not in self._removed:
                raise InvalidPartitionSpecError(
                    f"partition field {name} cannot be added: {field.name} is {field.transform} of the same column already",
                    next_step=f"keep {field.name}, or rename it with rename_field",
                )
            # An earlier change of this update removed this field, so it is restored at its old position.
            self._removed -= {field.field_id}
            self._rename(field, change.name or field.name)
            return change.name or field.name
        self._refuse_second_unit_of_time(name, change)
        self._release_name(name)
        last = max((field.field_id for field in self._fields), default=FIRST_PARTITION_FIELD_ID - 1)
        self._fields.append(PartitionField(change.source_id, last + 1, change.transform, name))
        return name

    def _refuse_second_unit_of_time(self, name: str, change: AddPartitionField) -> None:
        """Refuse a second unit of time of a column among the added fields.

        JAVA: BaseUpdatePartitionSpec.checkForRedundantAddedPartitions.
        """
        for field in self._fields:
            is_added = field.field_id not in self._original_ids and field.source_ids == (change.source_id,)
            if is_added and is_time_transform(field.transform) and is_time_transform(change.transform):
                raise InvalidPartitionSpecError(
                    f"partition field {name} cannot be added: the column is already partitioned by time, by the added field {field.name}",
                    next_step="add one of the two",
                )

    def _remove(self, field: PartitionField) -> None:
        if field.field_id in self._original_ids:
            self._removed |= {field.field_id}
        else:
            self._fields.remove(field)

    def _rename(self, field: PartitionField, new_name: str) -> None:
        if field.name != new_name:
            self._release_name(new_name)
            self._fields[self._fields.index(field)] = replace(field, name=new_name)

    def _release_name(self, name: str) -> None:
        """Make a name available for a field: a removed or void field with this name is renamed, as in Java; for any other field an error is raised."""
        for position, field in enumerate(self._fields):
            if field.name != name:
                continue
            if not self._is_removed(field):
                raise InvalidPartitionSpecError(
                    f"there is a partition field {name} already: {field.transform} of {self._schema.find_column_name(field.source_id)}",
                    next_step="choose another name, or remove or rename that field first",
                )
            self._fields[position] = replace(field, name=f"{name}_{field.field_id}")

    def _is_removed(self, field: PartitionField) -> bool:
        return field.field_id in self._removed or isinstance(field.transform, VoidTransform)

    def _find(self, name: str) -> PartitionField:
        live = [field for field in self._fields if not self._is_removed(field)]
        for field in live:
            if field.name == name:
                return field
        names = ", ".join(field.name for field in live) or "none"
        raise InvalidPartitionSpecError(f"there is no partition field {name!r}", next_step=f"use one of the existing fields: {names}")


def _default_name(change: AddPartitionField, schema: Schema) -> str:
    """Return the name for a new field without a name; it contains the number of buckets or the width. JAVA: BaseUpdatePartitionSpec.PartitionNameGenerator."""
    column = schema.find_column_name(change.source_id) or str(change.source_id)
    match change.transform:
        case IdentityTransform():
            return column
        case BucketTransform(num_buckets=number) | TruncateTransform(width=number):
            return f"{column}_{change.transform.name_suffix}_{number}"
        case _:
            return f"{column}_{change.transform.name_suffix}"


def assign_field_ids(spec: PartitionSpec, known_specs: Iterable[PartitionSpec], last_partition_id: int) -> PartitionSpec:
    """Return the spec with the field ids of the table: the id of a field with the same source and transform in another spec, else a new id.

    New ids follow `last_partition_id`. If several fields of other specs have the same source and transform, a field with the same id is preferred, then one
    with the same name. This can happen in version 1, where removed fields are kept as void fields, so that a column may have several of them. Spec: Partition
    Evolution.
    """
    known_ids: dict[tuple[tuple[int, ...], Transform, int | str | None], int] = {}
    for older in known_specs:
        for field in older.fields:
            for label in (field.field_id, field.name, None):
                known_ids.setdefault((field.source_ids, field.transform, label), field.field_id)
    unchanged_ids = {field.field_id for field in spec.fields if (field.source_ids, field.transform, field.field_id) in known_ids}
    used_ids: set[int] = set()
    fields: list[PartitionField] = []
    for field in spec.fields:
        keys = ((field.source_ids, field.transform, label) for label in (field.field_id, field.name, None))
        field_id = next((known_ids[key] for key in keys if key in known_ids), None)
        if field_id is None or field_id in used_ids or (field_id in unchanged_ids and field_id != field.field_id):
            last_partition_id += 1
            field_id = last_partition_id
        used_ids.add(field_id)
        fields.append(replace(field, field_id=field_id))
    return PartitionSpec(*fields, spec_id=spec.spec_id)


def assign_spec_field_ids(
    spec: PartitionSpec, known_specs: Iterable[PartitionSpec], last_partition_id: int, *, format_version: int
) -> PartitionSpec:
    """Return the spec with the field ids of the table: those of equivalent fields in its other specs, and new ids for other fields.

    Raises:
        InvalidPartitionSpecError: The format version is 1, and a field would replace a different field at the same position.
    Spec: Partition Evolution.
    """
    if format_version > 1:
        return assign_field_ids(spec, known_specs, last_partition_id)
    numbered = PartitionSpec(
        *(replace(field, field_id=FIRST_PARTITION_FIELD_ID + position) for position, field in enumerate(spec.fields)), spec_id=spec.spec_id
    )
    for known_spec in known_specs:
        for old, new in zip(known_spec.fields, numbered.fields, strict=False):
            is_void = isinstance(old.transform, VoidTransform) or isinstance(new.transform, VoidTransform)
            if old.field_id != new.field_id or old.source_ids != new.source_ids or not (is_void or old.transform == new.transform):
                raise InvalidPartitionSpecError(
                    f"partition field {new.name} would replace {old.name} at its position: a table of format version 1 may only add partition "
                    "fields at the end of its spec; removed fields stay as void",
                    next_step="upgrade the table to format version 2",
                )
    return numbered
