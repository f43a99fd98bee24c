"""Constants for the decisions of maintenance: the cost of opening a file, the number of scans after which a rewrite must have paid off, and others.

`docs/maintenance.md` explains the formula with these names. Spec: none.
"""

# Opening a file takes a reader as long as reading this many bytes: the default of Iceberg's `read.split.open-file-cost`.
FILE_OPEN_BYTES = 4 << 20
# Reading, encoding and writing a byte takes as long as only reading this many bytes.
REWRITE_COST = 3
# The number of scans within which a rewrite must pay off.
SCANS = 10
# The share of scans that filter by the sort key, and so benefit from files that do not overlap.
FILTERED_SHARE = 0.5
# Comparing a row with the keys of equality deletes costs this share of reading the row.
EQUALITY_SHARE = 0.2
# The number of target-size files in a group: small groups can be ranked one by one, and their commits are soon done.
GROUP_FILES = 8
# The share of changed rows after which the distinct values of columns are counted again.
STALE_SHARE = 0.1
# The number of manifests above the best number that is tolerated, because a rewrite is a commit too.
SPARE_MANIFESTS = 3
# The size of a metadata file from which on loading it takes longer than planning most scans.
METADATA_FILE_BYTES = 8 << 20


def has_too_many_manifests(manifests: int, best: int) -> bool:
    """Return whether rewriting the manifests of one content and spec pays: they are more than twice the best number, and at least a few more."""
    return manifests > max(2 * best, best + SPARE_MANIFESTS)
