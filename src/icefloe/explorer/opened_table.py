"""`OpenedTable`: a table that a page shows, with what was computed from its files so far.

What needs manifests takes seconds for a large table. It is computed in a thread once for each metadata file, and a page that needs it waits a moment, then is
sent with a notice and loaded again by the browser.
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
# Results that are kept for a table: of the newest metadata file, and of some older ones.
_MOST_RESULTS = 24
# The same of a kind whose results have columns for each file: some hundred megabytes of a table of a million files.
_MOST_OF_KIND = 4
# Seconds that a page waits for all of its results before it is sent without those that are not there.
_PATIENCE_S = 0.5
# Seconds for which an error is shown before its computation is tried again: the storage may respond by then.
_FAILURE_S = 10.0
# Data files up to which a page checks whether each one exists: one request for each.
MOST_CHECKED_FILES = 2_000


class StillRunningError(Exception):
    """A result is not there yet; the text is what is computed."""


@dataclass(slots=True)
class Results:
    """Results of computations by key. The least recently used are dropped, and an error is dropped after some seconds. Any number of threads may use it."""

    patience_s: float | None = _PATIENCE_S
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, thread_name_prefix="icefloe-explore"))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _futures: "OrderedDict[Hashable, Future[Any]]" = field(default_factory=OrderedDict)
    _kinds: dict[Hashable, str] = field(default_factory=dict)
    _failed_s: dict[Hashable, float] = field(default_factory=dict)  # when the error of a computation was first returned

    def get(self, key: Hashable, compute: Callable[[], T], what: str, waited_s: float = 0.0, kind: str = "") -> T:
        """Return a result, which a thread computes if there is none.

        Args:
            key: What identifies it.
            compute: Computes it.
            what: What it is, for the reader who waits.
            waited_s: How long the page has waited for other results.
            kind: The kind of large results of which only the last few are kept; empty for others.

        Raises:
            StillRunningError: It is not there within the patience.
            Exception: What `compute` raised.
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
        """Drop what does not run yet."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table at one metadata file, and one of its snapshots.

    Attributes:
        reader: The table.
        results: The computations, which the pages of all tables share.
        typed: The name of the table as commands take it.
        arguments: The options of commands that name its catalog.
        snapshot: The snapshot that the page was opened with: an id, a branch or a tag; None for the current one.
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
        """The chosen snapshot; None for a table without snapshots. Raises `NoSuchSnapshotError`."""
        chosen = snapshot_id_of(self.reader, self.snapshot)
        return self.reader.metadata.current_snapshot_id if chosen is None else chosen

    def files(self, columns: tuple[str, ...] | None = None) -> FilesOfBranch:
        """Return all live files of the snapshot, with the bounds of some columns. Raises as `files_of_branch`, and `StillRunningError`."""
        metadata, snapshot_id = self.reader.metadata, self.snapshot_id
        snapshot = None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
        return self._result(
            ("files", snapshot_id, columns),
            lambda: files_of_branch(metadata, snapshot, self.reader.io.read, columns),
            "Reading the manifests",
            kind="" if columns is None else "bounds",
        )

    def live_files(self) -> LiveFiles:
        """Return the live files of the snapshot by partition. Raises as `files`."""
        files = self.files()
        return self._result(("live files", self.snapshot_id), lambda: live_files(files), "Counting files by partition")

    def health(self) -> TableHealth:
        """Return the health of the snapshot. Raises as `files`."""
        files = self.files()
        branch = self.snapshot if self.snapshot in self.reader.metadata.refs else MAIN
        return self._result(
            ("health", self.snapshot_id), lambda: health_of_files(self.reader, branch or MAIN, files), "Measuring the table's health"
        )

    def validation(self, *, every_snapshot: bool = False) -> Validation:
        """Return what breaks rules: in the snapshot, or in all snapshots. Of a small table each file is checked for its existence too.

        Raises:
            StillRunningError: It is not there yet.
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
        """Whether a validation checks that each file exists. The files are counted, because the totals of a summary may be wrong; see `files`."""
        try:
            count: int | None = sum(map(len, self.files().plan.parts))
        except IcefloeError:  # a manifest is damaged
            snapshot_id = self.snapshot_id
            snapshot = None if snapshot_id is None else self.reader.metadata.snapshot_by_id(snapshot_id)
            count = None if snapshot is None else summary_number(snapshot.summary, "total-data-files")
        return count is not None and count <= MOST_CHECKED_FILES

    def overhead(self) -> MetadataOverhead:
        """Return the bytes of metadata compared with data. Raises as `icefloe.inspect.overhead`, and `StillRunningError`."""
        return self._result("overhead", lambda: overhead(self.reader), "Measuring the metadata of all snapshots")

    def trace(self, where: str) -> ScanTrace:
        """Return the trace of a scan with a filter. Raises as `icefloe.inspect.trace`, and `StillRunningError`."""
        snapshot_id = self.snapshot_id
        return self._result(
            ("trace", snapshot_id, where), lambda: trace(self.reader, where or None, snapshot_id), "Planning the query", kind="trace"
        )

    def get_or_compute(self, key: Hashable, compute: Callable[[], T], what: str) -> T:
        """Return a result about the table, see `Results.get`."""
        return self._result(("other", key), compute, what)

    def _result(self, key: Hashable, compute: Callable[[], T], what: str, kind: str = "") -> T:
        return self.results.get((self.name, self.reader.state, key), compute, what, time.monotonic() - self._started, kind)
