"""Assignment of row ids to the manifests of a v3 snapshot, when its manifest list is written.

`spec/manifest/inheritance.py` assigns those of the files of a manifest.
Spec: First Row ID Assignment; Row Lineage; Row lineage example.
"""

from collections.abc import Iterable
from dataclasses import replace

from icefloe.errors import InvalidInputError, MetadataFormatError
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile

_MAX_LONG = 2**63 - 1


def assign_first_row_ids(manifests: Iterable[ManifestFile], next_row_id: int) -> tuple[list[ManifestFile], int]:
    """Return the manifests in their order, each data manifest with a first row id, and the next row id after them.

    Manifests that have a first row id keep it, delete manifests have none. The others, new ones and those from before v3, get `next_row_id`, which advances by
    their added and existing rows. Some existing files may have row ids already, which is not known here, so ids may be left unused.

    Raises:
        InvalidInputError: A manifest's row counts are unknown.
    """
    assigned = []
    for manifest in manifests:
        if manifest.content != ManifestContent.DATA or manifest.first_row_id is not None:
            assigned.append(manifest)
            continue
        if manifest.added_rows_count is None or manifest.existing_rows_count is None:
            raise InvalidInputError(
                f"{manifest.manifest_path} cannot get row ids: its row counts are unknown",
                path=manifest.manifest_path,
                next_step="let rewrite_manifests write the manifest again",
            )
        assigned.append(replace(manifest, first_row_id=next_row_id))
        next_row_id += manifest.added_rows_count + manifest.existing_rows_count
    if next_row_id > _MAX_LONG:
        raise MetadataFormatError(
            f"the table's next-row-id would become {next_row_id}, more than 64 bits hold: no rows can be added",
            next_step="no writer of Iceberg counts so far: restore an earlier metadata file, or copy the rows to a new table",
        )
    return assigned, next_row_id
