"""Gives row ids to the manifests of a v3 snapshot, when its manifest list is written.

How the files of a manifest take them over is `kernel/manifest/inheritance.py`.
Spec: First Row ID Assignment; Row Lineage; Row lineage example.
"""

from collections.abc import Iterable
from dataclasses import replace

from icefloe.errors import InvalidInputError, MetadataFormatError
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile

_MAX_LONG = 2**63 - 1


def assign_first_row_ids(manifests: Iterable[ManifestFile], next_row_id: int) -> tuple[list[ManifestFile], int]:
    """The manifests in their order, each data manifest with a first row id, and the next row id after them.

    Those that have one keep it, delete manifests have none. The others, new ones and those from before v3, take `next_row_id` and move it on by their added
    and existing rows: which of the existing files have row ids already is not known here, and ids may be left unused.

    Raises:
        InvalidInputError: a manifest's row counts are not known.
        MetadataFormatError: the next row id would not fit into 64 bits.
    """
    found = []
    for manifest in manifests:
        if manifest.content != ManifestContent.DATA or manifest.first_row_id is not None:
            found.append(manifest)
            continue
        if manifest.added_rows_count is None or manifest.existing_rows_count is None:
            raise InvalidInputError(
                f"{manifest.manifest_path} cannot be given row ids: its rows are not counted",
                path=manifest.manifest_path,
                next_step="count the manifest's entries first (kernel.manifest.manifest_reader.fill_counts)",
            )
        found.append(replace(manifest, first_row_id=next_row_id))
        next_row_id += manifest.added_rows_count + manifest.existing_rows_count
    if next_row_id > _MAX_LONG:
        raise MetadataFormatError(
            f"the table's next-row-id would become {next_row_id}, more than 64 bits hold: no rows can be added",
            next_step="no writer of Iceberg counts so far: restore an earlier metadata file, or copy the rows to a new table",
        )
    return found, next_row_id
