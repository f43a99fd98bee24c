"""The numbers of the explorer: `OpenedTable`, a table that a page shows, with the results that were computed from its files so far.

Results that need manifests take seconds for a large table. A thread computes each result once for each metadata file. A page waits a moment for a result; if it
is not ready, the page is sent with a notice, and the browser loads it again.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from icefloe.checks.table_health import TableHealth, health_of_files
from icefloe.checks.validation import Validation
from icefloe.errors import IcefloeError
from icefloe.explorer.live_files import LiveFiles, live_files
from icefloe.inspect.lookup import snapshot_id_of
from icefloe.inspect.metadata_overhead import MetadataOverhead, overhead
from icefloe.inspect.scan_trace import ScanTrace, trace
from icefloe.inspect.table_overview import summary_number
from icefloe.inspect.validation import validate
from icefloe.maintenance.health_measures import FilesOfBranch, files_of_branch
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.metadata.snapshot_ref import MAIN

T = TypeVar("T")
# The most results that are kept, of the newest metadata files and of some older ones.
_MOST_RESULTS = 24
# The most results of one large kind, with columns for each file: for a table of a million files a result has some hundred megabytes.
_MOST_OF_KIND = 4
# Seconds that a page waits for all of its results together before it is sent without those that are not ready.
_PATIENCE_S = 0.5
# Seconds for which an error is shown before its computation is tried again: the storage may respond by then.
_FAILURE_S = 10.0
# The most data files of a table of which a page checks that each file exists, by one request for each.
MOST_CHECKED_FILES = 2_000


class StillRunningError(Exception):
    """A result is not computed yet. The text of the error describes the computation."""


@dataclass(slots=True)
class Results:
    """Results of computations by key. Any number of threads may use it.

    The least recently used results are dropped, and an error after some seconds.
    """

    patience_s: float | None = _PATIENCE_S
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, thread_name_prefix="icefloe-explore"))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _futures: "OrderedDict[Hashable, Future[Any]]" = field(default_factory=OrderedDict)
    _kinds: dict[Hashable, str] = field(default_factory=dict)
    _failed_s: dict[Hashable, float] = field(default_factory=dict)  # when the error of a computation was first returned

    def get(self, key: Hashable, compute: Callable[[], T], what: str, waited_s: float = 0.0, kind: str = "") -> T:
        """Return a result. If there is none, a thread begins to compute it.

        Args:
            key: The key of the result.
            compute: Computes the result.
            what: A description of the computation for the reader who waits.
            waited_s: Seconds that the page has waited for other results already.
            kind: The name of a kind of large results, of which only the last few are kept; empty for other results.

        Raises:
            StillRunningError: The result is not computed within `patience_s`.
            Exception: The error of `compute`.
        """
        with self._lock:
            if time.monotonic() - self._failed_s.get(key, math.inf) > _FAILURE_S:
                del self._failed_s[key]
                self._futures.pop(key, None)
            future = self._futures.get(key)
            if future is None:
                future = self._futures[key] = self._pool.submit(compute)
            self._futures.move_to_end(key)
            self._kinds[key] = kind
            same = [other for other, future in self._futures.items() if kind and self._kinds[other] == kind and future.done()]
            for other in [*same[:-_MOST_OF_KIND], *list(self._futures)[:-_MOST_RESULTS]]:
                self._futures.pop(other, None)
                self._failed_s.pop(other, None)
                self._kinds.pop(other, None)
        done, _ = wait([future], None if self.patience_s is None else max(self.patience_s - waited_s, 0.0))
        if not done:
            raise StillRunningError(what)
        if future.exception() is not None:
            with self._lock:
                if self._futures.get(key) is future:
                    self._failed_s.setdefault(key, time.monotonic())
        result: T = future.result()
        return result

    def close(self) -> None:
        """Drop the computations that have not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table at one metadata file, with one of its snapshots chosen.

    Attributes:
        reader: The table.
        results: The results of computations, which the pages of all tables share.
        typed: The name of the table as commands accept it.
        arguments: The options of commands that select its catalog.
        snapshot: The snapshot with which the page was opened: an id, a branch or a tag; None for the current one.
    """

    reader: TableReader
    results: Results
    typed: str
    arguments: str = ""
    snapshot: str | None = None
    _started: float = field(default_factory=time.monotonic, compare=False)

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.reader.full_name

    @property
    def snapshot_id(self) -> int | None:
        """The id of the chosen snapshot; None for a table without snapshots.

        Raises:
            NoSuchSnapshotError: The table does not have the snapshot.
        """
        chosen = snapshot_id_of(self.reader, self.snapshot)
        return self.reader.metadata.current_snapshot_id if chosen is None else chosen

    def files(self, columns: tuple[str, ...] | None = None) -> FilesOfBranch:
        """Return all live files of the snapshot.

        Args:
            columns: The names of the columns whose bounds are read; None for the default ones.

        Raises:
            StillRunningError: The files are still being read.
            IcefloeError: The errors of `files_of_branch`.
        """
        metadata, snapshot_id = self.reader.metadata, self.snapshot_id
        snapshot = None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
        return self._result(
            ("files", snapshot_id, columns),
            lambda: files_of_branch(metadata, snapshot, self.reader.io.read, columns),
            "Reading the manifests",
            kind="" if columns is None else "bounds",
        )

    def live_files(self) -> LiveFiles:
        """Return the live files of the snapshot by partition. Its errors are those of `files`."""
        files = self.files()
        return self._result(("live files", self.snapshot_id), lambda: live_files(files), "Counting files by partition")

    def health(self) -> TableHealth:
        """Return the health of the snapshot. Its errors are those of `files`."""
        files = self.files()
        branch = self.snapshot if self.snapshot in self.reader.metadata.refs else MAIN
        return self._result(
            ("health", self.snapshot_id), lambda: health_of_files(self.reader, branch or MAIN, files), "Measuring the table's health"
        )

    def validation(self, *, every_snapshot: bool = False) -> Validation:
        """Return the violations of the specification. The existence of each file is checked too if there are at most `MOST_CHECKED_FILES`.

        Args:
            every_snapshot: Validate all snapshots, not only the chosen one.

        Raises:
            StillRunningError: The validation is still running.
        """
        snapshot_id, checks_files = self.snapshot_id, self.checks_files
        chosen = None if every_snapshot or snapshot_id is None else str(snapshot_id)
        return self._result(
            ("validation", chosen),
            lambda: validate(self.reader, snapshot=chosen, files=checks_files, most_findings=100),
            "Validating the table",
        )

    @property
    def checks_files(self) -> bool:
        """Whether a validation checks that each file exists: there are at most `MOST_CHECKED_FILES`.

        The files are counted, because the total in the snapshot's summary may be wrong. The total is only used if a manifest cannot be read.

        Raises:
            StillRunningError: The files are still being read.
        """
        try:
            count: int | None = sum(map(len, self.files().plan.parts))
        except IcefloeError:  # a manifest cannot be read
            snapshot_id = self.snapshot_id
            snapshot = None if snapshot_id is None else self.reader.metadata.snapshot_by_id(snapshot_id)
            count = None if snapshot is None else summary_number(snapshot.summary, "total-data-files")
        return count is not None and count <= MOST_CHECKED_FILES

    def overhead(self) -> MetadataOverhead:
        """Return the size of the metadata compared with the data.

        Raises:
            StillRunningError: The manifests are still being read.
            IcefloeError: The errors of `icefloe.inspect.overhead`.
        """
        return self._result("overhead", lambda: overhead(self.reader), "Measuring the metadata of all snapshots")

    def trace(self, where: str) -> ScanTrace:
        """Return the trace of a scan with a filter.

        Raises:
            StillRunningError: The scan is still being planned.
            IcefloeError: The errors of `icefloe.inspect.trace`.
        """
        snapshot_id = self.snapshot_id
        return self._result(
            ("trace", snapshot_id, where), lambda: trace(self.reader, where or None, snapshot_id), "Planning the query", kind="trace"
        )

    def get_or_compute(self, key: Hashable, compute: Callable[[], T], what: str) -> T:
        """Return a result about the table for which this class has no method. Arguments and errors are those of `Results.get`."""
        return self._result(("other", key), compute, what)

    def _result(self, key: Hashable, compute: Callable[[], T], what: str, kind: str = "") -> T:
        return self.results.get((self.name, self.reader.state, key), compute, what, time.monotonic() - self._started, kind)
