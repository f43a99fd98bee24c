"""Constants by which maintenance decides: what opening a file costs, how many scans a rewrite must pay for, and when manifests are too many.

`docs/maintenance.md` explains the formula with these names. Spec: none.
"""

# Opening a file takes a reader as long as reading so many bytes; the default of Iceberg's `read.split.open-file-cost`.
FILE_OPEN_BYTES = 4 << 20
# Reading, encoding and writing a byte takes as long as reading so many.
REWRITE_COST = 3
# A rewrite must pay for itself within so many scans.
SCANS = 10
# Share of the scans that filter by the sort key, and so profit from files that do not overlap.
FILTERED_SHARE = 0.5
# Comparing the keys of equality deletes with a row costs this share of reading it.
EQUALITY_SHARE = 0.2
# Files of the target size that are written for one group: small groups are ranked one by one, and each commit is soon over.
GROUP_FILES = 8
# The distinct values of columns are counted again once so many of the rows changed.
STALE_SHARE = 0.1
# So many manifests above the best number are left, because a rewrite is a commit too.
SPARE_MANIFESTS = 3
# A metadata file of this size takes a reader longer to load than most scans take to plan.
METADATA_FILE_BYTES = 8 << 20


def has_too_many_manifests(manifests: int, best: int) -> bool:
    """Return whether manifests of one content and partition spec are worth rewriting: more than twice the best number, and than a few more."""
    return manifests > max(2 * best, best + SPARE_MANIFESTS)
