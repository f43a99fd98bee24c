"""`ManifestEntries`: the entries of one manifest as columns, both the stored values and those that readers see, even if many of them are wrong.

The reader of scans (`spec.manifest.manifest_reader`) refuses a manifest with one wrong value. Here a column that cannot be converted is a problem, and the
other columns are still validated. Spec: Manifests; Sequence Number Inheritance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import Problem
from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, numpy_of
from icefloe.spec.avro.avro_columns import read_arrays
from icefloe.spec.avro.avro_container import Container
from icefloe.spec.avro.projection_tree import ProjectedField, Struct, Value
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import DELETE_FIELDS, ENTRY_FIELDS, WHOLE_FIELDS, partition_column
from icefloe.spec.manifest.manifest_schema import projected_entries
from icefloe.spec.manifest.partition_values import primitive, typed_array, untyped_array
from icefloe.spec.partitioning.partition_spec import UntypedPartition
from icefloe.spec.types import StructType
from icefloe.spec.values import physical_arrow_type

# Represents null in NumPy arrays of integers, which have no nulls.
NO_NUMBER = -(2**63)
# The maps of column statistics that rules check.
METRICS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
_METRICS = frozenset(METRICS)
_EXISTING, _ADDED, _DELETED = (int(status) for status in ManifestEntryStatus)


@dataclass(frozen=True)
class ManifestEntries:
    """The entries of one manifest.

    Attributes:
        columns: The stored columns of `ENTRY_FIELDS` and `DELETE_FIELDS`, `METRICS`, and `partition.<field id>`, as Arrow arrays.
            A column that cannot be converted has only nulls.
        problems: The columns that cannot be converted, each with the reason.
        length: The number of entries.
        sequence_number: The manifest's sequence number.
        added_snapshot_id: The snapshot that added the manifest; None if unknown.
    """

    columns: dict[str, Any]
    problems: tuple[Problem, ...]
    length: int
    sequence_number: int
    added_snapshot_id: int | None

    def numbers(self, name: str) -> NDArray[np.int64]:
        """Return a column of numbers as a NumPy array, with `NO_NUMBER` for null."""
        numbers = self._numbers.get(name)
        if numbers is None:
            column = self.columns[name]
            longs = column if pa.types.is_int64(column.type) else column.cast(pa.int64())
            numbers = self._numbers[name] = numpy_of(fill_nulls(longs, NO_NUMBER))
        return numbers

    @cached_property
    def _numbers(self) -> dict[str, NDArray[np.int64]]:
        """The columns that `numbers` has converted, which several rules use."""
        return {}

    def is_null(self, name: str) -> NDArray[np.bool_]:
        """Return a mask of the entries whose value in a column is null."""
        return numpy_of(self.columns[name].is_null())

    @cached_property
    def status(self) -> NDArray[np.int64]:
        """The status of each entry."""
        return self.numbers("status")

    @cached_property
    def is_live(self) -> NDArray[np.bool_]:
        """Whether a scan of the snapshot reads the file. Entries with an unknown status are not live."""
        return np.equal(self.status, _EXISTING) | np.equal(self.status, _ADDED)

    @cached_property
    def is_added(self) -> NDArray[np.bool_]:
        """Whether the status is ADDED."""
        return np.equal(self.status, _ADDED)

    @cached_property
    def is_deleted(self) -> NDArray[np.bool_]:
        """Whether the status is DELETED."""
        return np.equal(self.status, _DELETED)

    @cached_property
    def file_content(self) -> NDArray[np.int64]:
        """The content of each file, 0 where it is null, as in version 1."""
        return numpy_of(fill_nulls(self.columns["content"].cast(pa.int64()), 0))

    @cached_property
    def snapshot_ids(self) -> NDArray[np.int64]:
        """The snapshot id of each entry; an entry without one inherits it from the manifest."""
        ids = self.numbers("snapshot_id")
        return ids if self.added_snapshot_id is None else np.where(ids == NO_NUMBER, self.added_snapshot_id, ids)

    @cached_property
    def data_sequence_numbers(self) -> NDArray[np.int64]:
        """The data sequence number of each entry, stored or inherited as readers inherit it."""
        return self._with_inheritance(self.numbers("sequence_number"))

    @cached_property
    def file_sequence_numbers(self) -> NDArray[np.int64]:
        """The file sequence number of each entry, stored or inherited as readers inherit it."""
        return self._with_inheritance(self.numbers("file_sequence_number"))

    def _with_inheritance(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        is_null = numbers == NO_NUMBER
        return np.where(is_null & self.is_added if self.sequence_number else is_null, self.sequence_number, numbers)

    @cached_property
    def path_hashes(self) -> NDArray[np.int64]:
        """A hash of the path of each file. Different paths can have the same hash, by chance or because their writer chose them."""
        paths = self.columns["file_path"].cast(pa.binary()).to_pylist()
        return np.fromiter((mmh3.hash64(path or b"")[0] for path in paths), np.int64, len(paths))

    def path(self, position: int) -> str | None:
        """Return the path of an entry's file; None if it is null."""
        path: str | None = self.columns["file_path"][position].as_py()
        return path


def read_manifest_entries(
    container: Container, partition_type: StructType, sequence_number: int, added_snapshot_id: int | None
) -> ManifestEntries:
    """Return the entries of a manifest.

    Args:
        container: The opened manifest.
        partition_type: The type of the manifest's partition tuples.
        sequence_number: The sequence number of the manifest in its manifest list.
        added_snapshot_id: The snapshot that added the manifest according to its manifest list; None if unknown.

    Raises:
        AvroFormatError: The file is damaged, or its schema lacks a required field.
    """
    projection = projected_entries(partition_type, _METRICS)
    batches = list(read_arrays([container], projection))
    columns: dict[str, Any] = {}
    problems: list[Problem] = []
    length = sum(len(batch["status"]) for batch in batches)
    for field in (*ENTRY_FIELDS, *DELETE_FIELDS, *(WHOLE_FIELDS.field(name) for name in METRICS)):
        columns[field.name] = _convert(field.name, [batch[field.name] for batch in batches], field.type, problems)
    for part in partition_type.fields:
        name = partition_column(part.field_id)
        arrays = [batch[name] for batch in batches]
        if isinstance(part, UntypedPartition):
            columns[name] = _whole([untyped_array(array) for array in arrays], pa.string())
        else:
            columns[name] = _convert(name, arrays, physical_arrow_type(primitive(part.field_type)), problems)
    return ManifestEntries(columns, tuple(problems), length, sequence_number, added_snapshot_id)


def read_paths(container: Container) -> Any:
    """Return the path of each entry's file, as an Arrow array of text.

    Raises:
        AvroFormatError: The file is damaged, or its schema lacks a required field.
    """
    projection = Struct(
        (ProjectedField(2, ("data_file",), Struct((ProjectedField(100, ("file_path",), Value("file_path"), True),)), True),)
    )
    return _convert("file_path", [batch["file_path"] for batch in read_arrays([container], projection)], pa.string(), [])


def _convert(name: str, arrays: Sequence[Any], kind: Any, problems: list[Problem]) -> Any:
    try:
        return _whole([typed_array(array, kind) for array in arrays], kind)
    except pa.ArrowException as error:
        problems.append(Problem(where=name, what=str(error)))
        return pa.nulls(sum(map(len, arrays)), kind)


def _whole(arrays: Sequence[Any], kind: Any) -> Any:
    return array_of_chunks(pa.chunked_array(arrays, kind)) if arrays else pa.nulls(0, kind)
