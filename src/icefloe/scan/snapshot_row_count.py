"""The number of rows of a snapshot, computed from its manifest list without reading manifests. Spec: Manifest Lists; Snapshots."""

from collections.abc import Iterable

from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot

_TOTAL_RECORDS = "total-records"


def rows_of_snapshot(snapshot: Snapshot, manifests: Iterable[ManifestFile]) -> int | None:
    """Return the number of rows of a snapshot from the counts in its manifest list, if they are certain.

    The counts of the manifest list must agree with `total-records` of the snapshot's summary, because some writers compute one of the two wrongly.

    Args:
        snapshot: The snapshot.
        manifests: All manifests of its list.

    Returns:
        The number of rows; None if there are delete files, whose counts are not numbers of deleted rows; if a count is missing; or if the two numbers differ.
    """
    rows = 0
    for manifest in manifests:
        if not manifest.has_live_files:
            continue
        counts = (manifest.added_rows_count, manifest.existing_rows_count)
        if manifest.content is ManifestContent.DELETES or None in counts or min(count or 0 for count in counts) < 0:
            return None
        rows += manifest.live_rows_count
    return rows if snapshot.summary.get(_TOTAL_RECORDS) == str(rows) else None
