"""`PlannedScans`: scans that the server plans, either at once or while the client polls, and whose files it sends in pages.

A plan is identified by the table, the snapshot and the filter. They are part of the ids that a client gets, which the server signs, so that any worker can
respond: a worker that does not have the plan makes it again with the same files, because a snapshot never changes. Each process keeps its last plans as
columns.
Spec: REST catalog, planTableScan, fetchPlanningResult, cancelPlanning, fetchScanTasks.
"""

import hashlib
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from itertools import accumulate

from icefloe.bounded_cache import BoundedCache
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.server.error_response import UNAVAILABLE, RefusedRequest

# The most plans that a process keeps, and the most files of all of them; a single plan may have more files.
KEPT_PLANS = 16
KEPT_FILES = 2_000_000
# The most plans that are waiting or being made. Each has its request in memory.
MOST_WAITING = 64
# The most cancelled plans that a process remembers.
REMEMBERED = 10_000
# The number of plans that a process makes at the same time.
PLANNERS = 4


class PlannedScans:
    """Makes the scan plans of this process, and keeps the last ones. Any number of threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[tuple[str, bool], Future[ScanPlan]] = OrderedDict()  # by the arguments `key` and `reads_all`
        self._cancelled: BoundedCache[bytes, bool] = BoundedCache(REMEMBERED)  # by digests of their ids, which may be very long
        self._planners = ThreadPoolExecutor(PLANNERS, thread_name_prefix="icefloe-plan")

    def plan(self, key: str, make: Callable[[], ScanPlan], wait_s: float, *, reads_all: bool = True) -> ScanPlan | None:
        """Return the plan for a key: the plan that this process has, or a new one that `make` makes in another thread.

        Args:
            key: The key of the plan.
            make: Makes the plan.
            wait_s: The seconds to wait for the plan.
            reads_all: Whether the plan may read every file of the catalog. Plans that may and plans that may not are kept apart.

        Returns:
            The plan; None if it is not ready yet.

        Raises:
            IcefloeError: The plan cannot be made.
            RefusedRequest: Too many plans are waiting to be made.
        """
        place = (key, reads_all)
        with self._lock:
            future = self._plans.get(place)
            is_new = future is None
            if future is None:
                if sum(not waiting.done() for waiting in self._plans.values()) >= MOST_WAITING:
                    raise RefusedRequest(
                        UNAVAILABLE, "ServiceUnavailableException", "too many scans wait to be planned", ("Retry-After", "5")
                    )
                future = self._plans[place] = self._planners.submit(make)
            self._plans.move_to_end(place)
        if is_new and wait_s <= 0:
            return None
        try:
            plan = future.result(wait_s)
        except CancelledError:
            return None
        except BaseException as error:
            # `make` itself may raise a timeout, which must be raised here: otherwise the client would wait without end.
            if isinstance(error, FutureTimeoutError) and not (future.done() and not future.cancelled() and future.exception() is error):
                return None
            self._drop(place)
            raise
        self._drop_old()
        return plan

    def cancel(self, plan_id: str, key: str) -> None:
        """Cancel a plan for the client that has its id. A plan that has not begun is not made; a plan that is ready is kept as usual.

        Args:
            plan_id: The id that the client has.
            key: The key of the plan. Other clients that are waiting for it request it again.
        """
        self._cancelled.put(_digest(plan_id), True)
        with self._lock:
            for place in ((key, True), (key, False)):
                future = self._plans.get(place)
                if future is not None and future.cancel():
                    del self._plans[place]

    def is_cancelled(self, plan_id: str) -> bool:
        """Return whether this process has cancelled the plan."""
        return self._cancelled.get(_digest(plan_id)) is not None

    def _drop(self, key: tuple[str, bool]) -> None:
        with self._lock:
            self._plans.pop(key, None)

    def _drop_old(self) -> None:
        with self._lock:
            ready = [(key, future) for key, future in self._plans.items() if future.done()]
            files = sum(future.result().kept.files for _, future in ready if not future.cancelled() and future.exception() is None)
            while len(ready) > 1 and (len(ready) > KEPT_PLANS or files > KEPT_FILES):
                key, future = ready.pop(0)
                del self._plans[key]
                files -= 0 if future.cancelled() or future.exception() is not None else future.result().kept.files


def _digest(plan_id: str) -> bytes:
    return hashlib.sha256(plan_id.encode()).digest()


def files_of(plan: ScanPlan, start: int, stop: int) -> list[PlannedFiles]:
    """Return a range of the files of a plan.

    Args:
        plan: The plan.
        start: The position of the first file in the plan.
        stop: The position after the last file.
    """
    ends = list(accumulate(len(part) for part in plan.parts))
    files: list[PlannedFiles] = []
    for at in range(bisect_right(ends, start), len(ends)):
        begin = ends[at] - len(plan.parts[at])
        if begin >= stop:
            break
        part = plan.parts[at]
        files.append(part.between(max(start - begin, 0), min(stop - begin, len(part))))
    return files
