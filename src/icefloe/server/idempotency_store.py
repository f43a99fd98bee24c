"""Idempotency keys: a request that is sent again under its key gets the answer of the first time, and nothing is done twice.

Final responses are kept for the lifetime that the configuration advertises: successes, and refusals that a retry would get again. Failures of the server
are not, so that a retry runs again. Two requests of one key at once run once. Spec: REST catalog, idempotency-key.
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from icefloe.server.error_response import UNAVAILABLE, RefusedRequest, bad_request
from icefloe.server.request import Answer

# Seconds that an answer is kept, which `GET /v1/config` advertises as PT30M.
LIFETIME_S = 1800
# A UUID of version 7. Spec: REST catalog, idempotency-key.
_KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# Refusals that another try may not get: missing rights and limits that change.
_NOT_FINAL = frozenset({401, 403, 408, 419, 429})
# Keys that a process keeps at most, and bytes of an answer that is kept whole; the metadata of a longer one is loaded again for a retry.
MOST_KEYS = 100_000
MOST_BYTES = 64 * 1024


# In the place of an answer that is too long to be kept.
LOADED_AGAIN = Answer()


def is_final(answer: Answer) -> bool:
    """Return whether an answer is kept for retries."""
    return answer.status < 500 and answer.status not in _NOT_FINAL


def checked_key(text: str) -> str:
    """Return a key in lower case. Raises `RefusedRequest` for one that is no UUID of version 7."""
    key = text.strip().lower()
    if not _KEY.fullmatch(key):
        raise bad_request("the header Idempotency-Key is no UUID of version 7 in its form of 36 characters")
    return key


class IdempotencyStore(Protocol):
    """The responses that are kept."""

    def once(self, user: str, key: str, request: str, act: Callable[[], Answer], load: Callable[[], Answer] | None = None) -> Answer:
        """Return the answer of the first request with a key, or run it.

        Args:
            user: The user; keys of different users have nothing to do with each other.
            key: The key.
            request: What identifies the request: a digest of its method, path and body.
            act: Runs the request.
            load: Loads what the request made as it is now, for a retry whose first answer was too long to be kept; None where there is nothing to load.

        Raises:
            RefusedRequest: The key was used for another request, or the first one still runs.
        """


@dataclass(slots=True)
class _Entry:
    request: str
    until: float
    answer: Answer | None = None
    is_done: threading.Event = field(default_factory=threading.Event)


class MemoryIdempotencyStore:
    """The responses of this process, which a restart drops."""

    def __init__(self, lifetime_s: float = LIFETIME_S, wait_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Make the store.

        Args:
            lifetime_s: Seconds that an answer is kept.
            wait_s: Seconds that a request waits for another one with its key.
            clock: Returns seconds.
        """
        self._lifetime_s = lifetime_s
        self._wait_s = wait_s
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], _Entry] = {}  # in the order in which they run out

    def once(self, user: str, key: str, request: str, act: Callable[[], Answer], load: Callable[[], Answer] | None = None) -> Answer:
        """See `IdempotencyStore.once`."""
        name, now = (user, key), self._clock()
        with self._lock:
            self._forget_old(now)
            entry = self._entries.get(name)
            is_first = entry is None
            if entry is None:
                entry = self._entries[name] = _Entry(request, now + self._lifetime_s)
        if is_first:
            return self._first(name, entry, act, load is not None)
        return self._again(entry, request, load)

    def _first(self, name: tuple[str, str], entry: _Entry, act: Callable[[], Answer], may_be_loaded: bool) -> Answer:
        try:
            answer = act()
            if is_final(answer):
                is_long = may_be_loaded and len(answer.body or b"") > MOST_BYTES
                entry.answer = LOADED_AGAIN if is_long else answer
            return answer
        finally:
            if entry.answer is None:
                with self._lock:
                    self._entries.pop(name, None)
            entry.is_done.set()

    def _again(self, entry: _Entry, request: str, load: Callable[[], Answer] | None) -> Answer:
        if entry.request != request:
            raise key_of_another()
        if not entry.is_done.wait(self._wait_s) or entry.answer is None:
            raise still_running()
        return load() if load is not None and entry.answer is LOADED_AGAIN else entry.answer

    def _forget_old(self, now: float) -> None:
        while self._entries:
            name = next(iter(self._entries))
            if self._entries[name].until > now and len(self._entries) < MOST_KEYS:
                return
            del self._entries[name]


def key_of_another() -> RefusedRequest:
    """Return the refusal of a key that was used for another request."""
    return bad_request("the Idempotency-Key was used for another request; a new request has a new key")


def still_running() -> RefusedRequest:
    """Return the refusal of a request whose first try has no answer yet."""
    return RefusedRequest(
        UNAVAILABLE, "ServiceUnavailableException", "a request with this Idempotency-Key still runs, or has failed", ("Retry-After", "1")
    )
