"""`ListedFile`: a live file with everything that its manifest entry states, read leniently.

The reader of scans refuses a manifest that has a wrong value. Here only the entry with the wrong value is left out, because the rules of entries report it.
Spec: Manifests; Data File Fields.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.spec.avro.avro_columns import read_batches
from icefloe.spec.avro.avro_container import Container
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.inheritance import first_row_id_reader, inherited_sequence_number
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.manifest.manifest_schema import projected_entries
from icefloe.spec.manifest.partition_values import convert_values, value_reader
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.types import StructType

_NUMBERS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
_BATCH_RECORDS = 1_024  # the most entries in memory at once, with all their metrics
_FORMATS = {file_format.value: file_format for file_format in FileFormat}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file with the position of its entry in the manifest. `sequence_number` is its data sequence number; None if unknown."""

    entry: int
    file: DataFile
    sequence_number: int | None


def read_listed_files(
    container: Container, manifest: ManifestFile, partition_type: StructType, positions: Collection[int]
) -> Iterator[ListedFile]:
    """Yield the files of the entries at some positions, in the order of the manifest. Entries that cannot be converted are left out.

    Args:
        container: The opened manifest.
        manifest: The entry of the manifest in the manifest list.
        partition_type: The type of the manifest's partition tuples.
        positions: The positions of the entries.

    Raises:
        AvroFormatError: The manifest is damaged.
    """
    chosen, last = frozenset(positions), max(positions, default=-1)
    readers = [(partition_column(part.field_id), value_reader(part)) for part in partition_type.fields]
    first_row_id = first_row_id_reader(manifest)
    start = 0
    for batch in read_batches(container, projected_entries(partition_type), batch_records=_BATCH_RECORDS):
        if start > last:
            return
        length = len(batch["status"])
        for place in range(length):
            values = {name: column[place] for name, column in batch.items()}
            try:
                values["first_row_id"] = first_row_id(values["status"], values["record_count"], values["first_row_id"])
                if start + place not in chosen:
                    continue
                partition = tuple(convert_values(read, [values[name]])[0] for name, read in readers)
                yield _listed_file(start + place, values, partition, manifest)
            except (TypeError, ValueError, KeyError, ArithmeticError):
                continue
        start += length


def _listed_file(position: int, values: Mapping[str, Any], partition: tuple[Any, ...], manifest: ManifestFile) -> ListedFile:
    fields = {name: value for name, value in values.items() if name not in _NUMBERS and not name.startswith("partition.")}
    fields["file_path"] = str(values["file_path"], "utf-8")
    fields["file_format"] = _FORMATS[str(values["file_format"], "utf-8").upper()]
    fields["content"] = FileContent(values["content"] or 0)
    target = values["referenced_data_file"]
    fields["referenced_data_file"] = None if target is None else str(target, "utf-8")
    # Further arithmetic needs numbers.
    fields["record_count"] = int(values["record_count"])
    fields["file_size_in_bytes"] = int(values["file_size_in_bytes"])
    return ListedFile(
        entry=position,
        file=DataFile(partition=partition, spec_id=manifest.partition_spec_id, **fields),
        sequence_number=inherited_sequence_number(values["status"], values["sequence_number"], manifest),
    )
