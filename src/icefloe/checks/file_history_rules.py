"""Rules across manifests: no snapshot has a file twice, the sequence number and first row id of a file never change, and no two files have the same row id.

They are computed from the digests of the manifests, of some 50 bytes an entry, so that no entry stays in memory. Files whose paths have equal hashes are
candidates; their manifests are read once more before anything is reported. Spec: Scan Planning; Sequence Number Inheritance; Row Lineage.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.manifest_check import ListedManifest, ManifestDigest, SnapshotManifests
from icefloe.checks.rule import Level, Rule, value_text

FILE_TWICE = Rule(
    id="file-twice",
    level=Level.SNAPSHOT,
    severity=Severity.ERROR,
    title="A snapshot has each file once.",
    section="Scan Planning",
    harm="Engines return every row of the file twice, or fail; a later delete removes one of the entries only.",
    next_step="let icefloe repair keep one entry",
)
NUMBER_CHANGED = Rule(
    id="sequence-number-changed",
    level=Level.SNAPSHOT,
    severity=Severity.ERROR,
    title="The sequence numbers of a file never change after the snapshot that added it.",
    section="Sequence Number Inheritance",
    harm="Deletes apply to the file in one snapshot, and not in another.",
    next_step="roll the table back to a snapshot before the change",
)
ROW_IDS_OVERLAP = Rule(
    id="row-ids-overlap",
    level=Level.SNAPSHOT,
    severity=Severity.ERROR,
    title="No two data files have rows of the same row id.",
    section="Row Lineage",
    harm="Two rows have one id: changelogs and incremental views mix them up.",
    next_step="rewrite one of the files with new row ids",
)
ROW_ID_CHANGED = Rule(
    id="first-row-id-changed",
    level=Level.SNAPSHOT,
    severity=Severity.ERROR,
    title="The first row id of a data file never changes once it is assigned.",
    section="First Row ID Inheritance",
    harm="The rows of the file have other ids in one snapshot than in another: changelogs and incremental views take them for new rows.",
    next_step="roll the table back to a snapshot before the change",
)
RULES = (FILE_TWICE, NUMBER_CHANGED, ROW_IDS_OVERLAP, ROW_ID_CHANGED)

# Returns the path of an entry's file, given the number of the manifest and the position of the entry; None if the manifest cannot be read again.
PathOf = Callable[[int, int], str | None]


class FileHistory:
    """The live entries of all manifests, as columns: the entries of one manifest follow those of another."""

    def __init__(self, digests: Sequence[ManifestDigest], manifests: Sequence[ListedManifest], path_of: PathOf) -> None:
        self._manifests = manifests
        self._path_of = path_of
        counts = [len(digest.live_paths) for digest in digests]
        self._numbers = np.repeat(np.array([digest.number for digest in digests], np.int32), counts)
        self._digests = digests
        self._paths = self._concatenate([digest.live_paths for digest in digests], np.int64)
        self._positions = self._concatenate([digest.live_positions for digest in digests], np.int32)

    @staticmethod
    def _concatenate(arrays: Sequence[NDArray[np.generic]], kind: type[np.generic]) -> "NDArray[np.int64]":
        joined: NDArray[np.int64] = np.concatenate(arrays) if arrays else np.empty(0, kind)
        return joined

    def twice(self, snapshots: Sequence[SnapshotManifests], most: int) -> Iterator[Finding]:
        """Yield a finding for each pair of entries with the same path in one snapshot, at most `most`.

        A pair is reported only for the first snapshot that has both entries.
        """
        rows = _positions_of_repeats(self._paths)
        hashes, numbers = self._paths[rows], self._numbers[rows]
        reported: set[tuple[int, int]] = set()
        for listed in snapshots if len(rows) else ():
            is_read = np.zeros(len(self._manifests), bool)
            is_read[listed.numbers] = True
            positions = np.flatnonzero(is_read[numbers])
            seconds = np.flatnonzero(hashes[positions[1:]] == hashes[positions[:-1]]) + 1
            for second in seconds[: most - len(reported)].tolist():
                pair = (int(rows[positions[second - 1]]), int(rows[positions[second]]))
                if pair not in reported:
                    reported.add(pair)
                    yield from self._twice(*pair, listed.snapshot.snapshot_id)

    def _twice(self, first: int, second: int, snapshot_id: int) -> Iterator[Finding]:
        place, other = self._place(first), self._place(second)
        path = self._path_of(*place)
        if path is None or path != self._path_of(*other):
            return
        manifest, earlier = self._manifests[other[0]], self._manifests[place[0]]
        yield FILE_TWICE.finding(
            f"snapshot {snapshot_id} has {value_text(path)} twice: entry {place[1]} of {value_text(earlier.path)} "
            f"and entry {other[1]} of {value_text(manifest.path)}",
            snapshot_id=snapshot_id,
            file=manifest.path,
            entry=other[1],
            path=path,
            expected=earlier.path,
            actual=manifest.path,
        )

    def _place(self, row: int) -> tuple[int, int]:
        return int(self._numbers[row]), int(self._positions[row])

    def changed_numbers(self, most: int) -> Iterator[Finding]:
        """Yield at most `most` entries whose data sequence number differs from that of another entry of the same file and adding snapshot."""
        numbers = self._concatenate([digest.live_sequence_numbers for digest in self._digests], np.int64)
        yield from self._differences(NUMBER_CHANGED, numbers, np.arange(len(numbers)), "sequence_number", most)

    def changed_row_ids(self, most: int) -> Iterator[Finding]:
        """Yield at most `most` entries whose first row id differs from that of another entry of the same file and adding snapshot.

        Entries without an id are skipped.
        """
        row_ids = self._concatenate([digest.live_row_ids for digest in self._digests], np.int64)
        yield from self._differences(ROW_ID_CHANGED, row_ids, np.flatnonzero(row_ids >= 0), "first_row_id", most)

    def _differences(self, rule: Rule, values: NDArray[np.int64], compared: NDArray[np.int64], name: str, most: int) -> Iterator[Finding]:
        """Yield a finding for each entry whose value differs from that of the first entry of the same file and adding snapshot.

        Args:
            rule: The rule of the findings.
            values: The value of each live entry.
            compared: The positions of the live entries to compare.
            name: The name of the field that has the value.
            most: The most findings.
        """
        keys = self._concatenate([digest.live_keys for digest in self._digests], np.int64)
        rows = compared[_positions_of_repeats(keys[compared])]
        ordered = keys[rows]
        begins = np.ones(len(rows), bool)
        begins[1:] = ordered[1:] != ordered[:-1]
        firsts = rows[np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))]
        changed = np.flatnonzero(values[rows] != values[firsts])
        for at in changed[:most].tolist():
            first, other = int(firsts[at]), int(rows[at])
            path = self._path_of(*self._place(first))
            if path is None or path != self._path_of(*self._place(other)):
                continue
            manifest = self._manifests[self._place(other)[0]]
            yield rule.finding(
                f"{value_text(path)} has {name} {values[other]}, and {values[first]} in another manifest",
                snapshot_id=manifest.snapshot_id,
                file=manifest.path,
                where=name,
                entry=self._place(other)[1],
                path=path,
                expected=int(values[first]),
                actual=int(values[other]),
            )

    def overlapping_row_ids(self, most: int) -> Iterator[Finding]:
        """Yield at most `most` data files whose first row id is within the range of another file's row ids."""
        firsts = self._concatenate([digest.live_row_ids for digest in self._digests], np.int64)
        counts = self._concatenate([digest.live_records for digest in self._digests], np.int64)
        rows = np.flatnonzero((firsts >= 0) & (counts > 0))
        order = rows[np.lexsort((self._paths[rows], firsts[rows]))]
        if len(order) < 2:
            return
        starts = firsts[order]
        ends = starts + counts[order]
        # The greatest end of the ranges so far, and its file. Equal ranges of one file in several manifests are not an overlap.
        furthest = np.maximum.accumulate(ends)
        owners = np.maximum.accumulate(np.where(ends == furthest, np.arange(len(ends)), 0))
        wrong = np.flatnonzero((starts[1:] < furthest[:-1]) & (self._paths[order][1:] != self._paths[order][owners[:-1]])) + 1
        for at in wrong[:most].tolist():
            row, owner = int(order[at]), int(order[owners[at - 1]])
            number, position = self._place(row)
            path, other = self._path_of(number, position), self._path_of(*self._place(owner))
            manifest = self._manifests[number]
            yield ROW_IDS_OVERLAP.finding(
                f"{value_text(path)} has row ids from {starts[at]} on, and {value_text(other)} those below {furthest[at - 1]}",
                snapshot_id=manifest.snapshot_id,
                file=manifest.path,
                where="first_row_id",
                entry=position,
                path=path,
                expected=int(furthest[at - 1]),
                actual=int(starts[at]),
            )


def _positions_of_repeats(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of values that occur more than once, ordered by value and then by position."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    same = np.zeros(len(order) + 1, bool)
    same[1:-1] = ordered[1:] == ordered[:-1]
    return order[same[1:] | same[:-1]] if len(order) else order
