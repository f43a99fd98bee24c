"""Idempotency keys: a request that is sent again under its key gets the answer of the first time, and nothing is done twice.

Final responses are kept for the lifetime that the configuration advertises: successes, and refusals that a retry would get again. Failures of the server
are not, so that a retry runs again. Two requests of one key at once run once. Spec: REST catalog, idempotency-key.
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from icefloe.server.error_response import UNAVAILABLE, RefusedRequest, bad_request
from icefloe.server.request import Answer

# Seconds that an answer is kept, which `GET /v1/config` advertises as PT30M.
LIFETIME_S = 1800
# A UUID of version 7. Spec: REST catalog, idempotency-key.
_KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# Refusals that another try may not get: missing rights and limits that change.
_NOT_FINAL = frozenset({401, 403, 408, 419, 429})
# Keys that a process keeps at most, bytes of a response that is kept whole (the metadata of a longer one is loaded again for a retry), and of all responses.
MOST_KEYS = 100_000
MOST_BYTES = 64 * 1024
MOST_BYTES_OF_ALL = 256 * 1024 * 1024
# Bytes that an entry takes beside its response.
BYTES_OF_ENTRY = 1024
# Entries that a request looks at, to drop them: more than one for each that it adds, so that they do not pile up.
_LOOKED_AT = 1_000
# In the place of an answer that is too long to be kept, or has credentials.
LOADED_AGAIN = Answer()


def kept_answer(answer: Answer, *, may_be_loaded: bool) -> Answer | None:
    """Return what is kept of an answer for retries: the answer as bytes, `LOADED_AGAIN`, or None for nothing, so that a retry runs again.

    Credentials are never kept. Of what cannot be loaded only a staged table has any, and to stage a table again changes nothing.

    Args:
        answer: The answer.
        may_be_loaded: Whether a retry can load what the request made.
    """
    if answer.status >= 500 or answer.status in _NOT_FINAL:
        return None
    encoded = answer.encode()
    if may_be_loaded and (answer.has_credentials or len(encoded.body or b"") > MOST_BYTES):
        return LOADED_AGAIN
    return None if answer.has_credentials else encoded


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
            load: Loads what the request made as it is now, for a retry whose first answer was not kept; None where there is nothing to load.

        Raises:
            RefusedRequest: The key was used for another request, or the first one still runs.
        """


@dataclass(slots=True)
class _Entry:
    request: str
    until: float
    answer: Answer | None = None
    is_done: threading.Event = field(default_factory=threading.Event)

    @property
    def size(self) -> int:
        """The bytes of the response and of what belongs to it: its key, the digest of its request, its headers."""
        if self.answer is None:
            return 0
        headers = sum(len(name) + len(value) for name, value in self.answer.headers.items())
        return BYTES_OF_ENTRY + headers + len(self.answer.body or b"")


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
        self._bytes = 0  # of all responses

    def once(self, user: str, key: str, request: str, act: Callable[[], Answer], load: Callable[[], Answer] | None = None) -> Answer:
        name, now = (user, key), self._clock()
        with self._lock:
            self._drop_old(now)
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
            kept_reply = kept_answer(answer, may_be_loaded=may_be_loaded)
            if kept_reply is not None:
                with self._lock:
                    entry.answer = kept_reply
                    self._bytes += entry.size
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

    def _drop_old(self, now: float) -> None:
        """Drop responses whose time is over, and the oldest ones of too many. A request that still runs is never dropped: its retry would run it twice."""
        for name, entry in list(islice(self._entries.items(), _LOOKED_AT)):
            is_kept = entry.until > now and len(self._entries) < MOST_KEYS and self._bytes < MOST_BYTES_OF_ALL
            if is_kept:
                return
            if entry.answer is not None:
                self._bytes -= entry.size
                del self._entries[name]


def key_of_another() -> RefusedRequest:
    """Return the refusal of a key that was used for another request."""
    return bad_request("the Idempotency-Key was used for another request; a new request has a new key")


def still_running() -> RefusedRequest:
    """Return the refusal of a request whose first try has no answer yet."""
    return RefusedRequest(
        UNAVAILABLE, "ServiceUnavailableException", "a request with this Idempotency-Key still runs, or has failed", ("Retry-After", "1")
    )
