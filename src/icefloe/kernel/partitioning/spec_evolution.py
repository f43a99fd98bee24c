"""Partition evolution: a spec with fields added, removed and renamed, and the field ids that a table gives a new spec.

The files that lie under older specs stay as they are. Spec: Partition Evolution.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from icefloe.errors import InvalidInputError, InvalidPartitionSpecError
from icefloe.kernel.partitioning.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec, check_spec
from icefloe.kernel.partitioning.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    is_time_transform,
)
from icefloe.kernel.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionField:
    """A new field; without a name it gets Java's, such as `id_bucket_16`."""

    source_id: int
    transform: Transform
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePartitionField:
    """New data is no longer partitioned by the field."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamePartitionField:
    """Another name for the field, which keeps its id."""

    name: str
    new_name: str


SpecChange = AddPartitionField | RemovePartitionField | RenamePartitionField


def evolve_spec(spec: PartitionSpec, changes: Iterable[SpecChange], schema: Schema, *, format_version: int) -> PartitionSpec:
    """The spec after the changes, made one after the other. New fields have ids of their own within it; the table gives them others (`numbered_spec`).

    Raises:
        InvalidPartitionSpecError: a change breaks a rule; the message names the field, the rule and the next step.
    """
    state = PartitionSpecUpdate(spec, schema, format_version=format_version)
    for change in changes:
        state.apply(change)
    return state.finished()


class PartitionSpecUpdate:
    """A spec while changes are made to it. Each change sees what those before it made."""

    def __init__(self, spec: PartitionSpec, schema: Schema, *, format_version: int) -> None:
        self._schema = schema
        self._format_version = format_version
        self._spec_id = spec.spec_id
        self._fields = list(spec.fields)
        self._removed: frozenset[int] = frozenset()  # ids of fields that were there at first
        self._original_ids = frozenset(field.field_id for field in spec.fields)

    def apply(self, change: SpecChange) -> SpecChange:
        """Makes one change, or none of it, and gives it back with the name that a new field got. Raises `InvalidPartitionSpecError`."""
        before = list(self._fields), self._removed
        try:
            match change:
                case AddPartitionField():
                    change = replace(change, name=self._add(change))
                case RemovePartitionField():
                    self._remove(self._find(change.name))
                case RenamePartitionField():
                    self._rename(self._find(change.name), change.new_name)
            # Fields with an unknown transform may stay until the last of the changes: the table refuses to add the spec that still has them.
            check_spec(self.finished(), self._schema, may_be_unknown=True)
        except InvalidInputError:
            self._fields, self._removed = before
            raise
        return change

    def finished(self) -> PartitionSpec:
        """The spec. In version 1 a removed field stays in its place as void, since readers there know fields by their place alone."""
        kept: list[PartitionField] = []
        for field in self._fields:
            if field.field_id not in self._removed:
                kept.append(field)
            elif self._format_version == 1:
                kept.append(replace(field, transform=VoidTransform()))
        return PartitionSpec(*kept, spec_id=self._spec_id)

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
            # Removed by an earlier one of these changes: it is there again, in its old place.
            self._removed -= {field.field_id}
            self._rename(field, change.name or field.name)
            return change.name or field.name
        self._refuse_second_unit_of_time(name, change)
        self._free(name)
        last = max((field.field_id for field in self._fields), default=FIRST_PARTITION_FIELD_ID - 1)
        self._fields.append(PartitionField(change.source_id, last + 1, change.transform, name))
        return name

    def _refuse_second_unit_of_time(self, name: str, change: AddPartitionField) -> None:
        """Refuse two units of time of one column among the added fields. JAVA: BaseUpdatePartitionSpec.checkForRedundantAddedPartitions."""
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
            self._free(new_name)
            self._fields[self._fields.index(field)] = replace(field, name=new_name)

    def _free(self, name: str) -> None:
        """Sees to it that no field has the name; a void one gives it up, as in Java."""
        for position, field in enumerate(self._fields):
            if field.name != name:
                continue
            if not self._is_gone(field):
                raise InvalidPartitionSpecError(
                    f"there is a partition field {name} already: {field.transform} of {self._schema.find_column_name(field.source_id)}",
                    next_step="choose another name, or remove or rename that field first",
                )
            self._fields[position] = replace(field, name=f"{name}_{field.field_id}")

    def _is_gone(self, field: PartitionField) -> bool:
        return field.field_id in self._removed or isinstance(field.transform, VoidTransform)

    def _find(self, name: str) -> PartitionField:
        live = [field for field in self._fields if not self._is_gone(field)]
        for field in live:
            if field.name == name:
                return field
        known = ", ".join(field.name for field in live) or "none"
        raise InvalidPartitionSpecError(f"there is no partition field {name!r}", next_step=f"use one of those there are: {known}")


def _default_name(change: AddPartitionField, schema: Schema) -> str:
    """JAVA: BaseUpdatePartitionSpec.PartitionNameGenerator, which gives more than a new table's names have: the number of buckets, the width."""
    column = schema.find_column_name(change.source_id) or str(change.source_id)
    match change.transform:
        case IdentityTransform():
            return column
        case BucketTransform(num_buckets=number) | TruncateTransform(width=number):
            return f"{column}_{change.transform.name_suffix}_{number}"
        case _:
            return f"{column}_{change.transform.name_suffix}"


def assign_field_ids(spec: PartitionSpec, known_specs: Iterable[PartitionSpec], last_partition_id: int) -> PartitionSpec:
    """The spec with the ids that a table gives it: that of the same source and transform in a known spec, else counted up from `last_partition_id`.

    Where several known fields have the same source and transform, the one that has the field's own id comes first, then one of its name: a table of
    version 1 keeps each field that it removed as void, so that one column may have several. Spec: Partition Evolution.
    """
    known: dict[tuple[tuple[int, ...], Transform, int | str | None], int] = {}
    for older in known_specs:
        for field in older.fields:
            for sign in (field.field_id, field.name, None):
                known.setdefault((field.source_ids, field.transform, sign), field.field_id)
    kept = {field.field_id for field in spec.fields if (field.source_ids, field.transform, field.field_id) in known}
    taken: set[int] = set()
    fields: list[PartitionField] = []
    for field in spec.fields:
        signs = (field.field_id, field.name, None)
        found = next((known[sign] for sign in ((field.source_ids, field.transform, one) for one in signs) if sign in known), None)
        if found is None or found in taken or (found in kept and found != field.field_id):
            last_partition_id += 1
            found = last_partition_id
        taken.add(found)
        fields.append(replace(field, field_id=found))
    return PartitionSpec(*fields, spec_id=spec.spec_id)


def numbered_spec(
    spec: PartitionSpec, known_specs: Iterable[PartitionSpec], last_partition_id: int, *, format_version: int
) -> PartitionSpec:
    """The spec with the field ids that a table gives it: those of equivalent fields of its other specs, and fresh ones. Spec: Partition Evolution.

    Raises:
        InvalidPartitionSpecError: in version 1, a field stands where another one stood before.
    """
    if format_version > 1:
        return assign_field_ids(spec, known_specs, last_partition_id)
    numbered = PartitionSpec(
        *(replace(field, field_id=FIRST_PARTITION_FIELD_ID + place) for place, field in enumerate(spec.fields)), spec_id=spec.spec_id
    )
    for known in known_specs:
        for old, new in zip(known.fields, numbered.fields, strict=False):
            is_void = isinstance(old.transform, VoidTransform) or isinstance(new.transform, VoidTransform)
            if old.field_id != new.field_id or old.source_ids != new.source_ids or not (is_void or old.transform == new.transform):
                raise InvalidPartitionSpecError(
                    f"partition field {new.name} stands where {old.name} stood: a table of format version 1 may only add partition fields "
                    "at the end of its spec; removed ones stay as void",
                    next_step="upgrade the table to format version 2",
                )
    return numbered
