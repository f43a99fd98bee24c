"""Idempotency keys: a request that is sent again with its key gets the response to the first request, and is not executed twice.

Final responses are kept for the lifetime that the configuration advertises: successes, and refusals that a retry would get too. Failures of the server are not
kept, so that a retry is executed. If two requests with one key arrive at once, only one is executed. Spec: REST catalog, idempotency-key.
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

# The seconds for which a response is kept, which `GET /v1/config` advertises as PT30M.
LIFETIME_S = 1800
# A UUID of version 7. Spec: REST catalog, idempotency-key.
_KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# Statuses of refusals that are not final, because rights and limits can change.
_NOT_FINAL = frozenset({401, 403, 408, 419, 429})
# The most keys of a process; the most bytes of a response that is kept (for a retry, the metadata of a longer one is loaded again); and of all responses.
MOST_KEYS = 100_000
MOST_BYTES = 64 * 1024
MOST_BYTES_OF_ALL = 256 * 1024 * 1024
# The bytes that an entry takes besides its response.
BYTES_OF_ENTRY = 1024
# The most entries that a request checks for being too old. It adds only one entry, so that old entries do not pile up.
_LOOKED_AT = 1_000
# Replaces a response that is too long to be kept, or has credentials. A retry loads the table or view again.
LOADED_AGAIN = Answer()


def kept_answer(answer: Answer, *, may_be_loaded: bool) -> Answer | None:
    """Decide what to keep of a response for a retry with the same idempotency key.

    Credentials are never kept. If a response with credentials cannot be loaded again, it is that of a staged table, and staging a table again changes nothing.

    Args:
        answer: The response.
        may_be_loaded: Whether a retry can load what the request created.

    Returns:
        The response as bytes, or `LOADED_AGAIN`; None if nothing is kept, so that a retry is executed.
    """
    if answer.status >= 500 or answer.status in _NOT_FINAL:
        return None
    encoded = answer.encode()
    if may_be_loaded and (answer.has_credentials or len(encoded.body or b"") > MOST_BYTES):
        return LOADED_AGAIN
    return None if answer.has_credentials else encoded


def checked_key(text: str) -> str:
    """Return an idempotency key in lower case.

    Raises:
        RefusedRequest: The key is not a UUID of version 7.
    """
    key = text.strip().lower()
    if not _KEY.fullmatch(key):
        raise bad_request("the header Idempotency-Key is no UUID of version 7 in its form of 36 characters")
    return key


class IdempotencyStore(Protocol):
    """Keeps the responses to requests with idempotency keys, and returns them if such a request is sent again."""

    def once(self, user: str, key: str, request: str, act: Callable[[], Answer], load: Callable[[], Answer] | None = None) -> Answer:
        """Return the response to the first request with a key. If there is none, execute the request.

        Args:
            user: The user. Equal keys of different users are independent.
            key: The key.
            request: A digest of the method, path and body of the request, which identifies it.
            act: Executes the request.
            load: Loads the current state of what the request created, for a retry whose first response was not kept; None if there is nothing to load.

        Returns:
            The response.

        Raises:
            RefusedRequest: The key was used for a different request, or the first request with it is still running.
        """


@dataclass(slots=True)
class _Entry:
    request: str
    until: float
    answer: Answer | None = None
    is_done: threading.Event = field(default_factory=threading.Event)

    @property
    def size(self) -> int:
        """The size of the response in bytes, with its key, the digest of its request, and its headers."""
        if self.answer is None:
            return 0
        headers = sum(len(name) + len(value) for name, value in self.answer.headers.items())
        return BYTES_OF_ENTRY + headers + len(self.answer.body or b"")


class MemoryIdempotencyStore:
    """An `IdempotencyStore` in the memory of this process. A restart drops the responses."""

    def __init__(self, lifetime_s: float = LIFETIME_S, wait_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the store.

        Args:
            lifetime_s: Seconds for which a response is kept.
            wait_s: Seconds that a request waits for a running one with its key.
            clock: Returns seconds.
        """
        self._lifetime_s = lifetime_s
        self._wait_s = wait_s
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], _Entry] = {}  # in the order in which they expire
        self._bytes = 0  # the size of all responses

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
        """Drop expired responses, and the oldest ones of too many. A running request is never dropped, because its retry would be executed too."""
        for name, entry in list(islice(self._entries.items(), _LOOKED_AT)):
            is_kept = entry.until > now and len(self._entries) < MOST_KEYS and self._bytes < MOST_BYTES_OF_ALL
            if is_kept:
                return
            if entry.answer is not None:
                self._bytes -= entry.size
                del self._entries[name]


def key_of_another() -> RefusedRequest:
    """Return the refusal of a key that was used for a different request."""
    return bad_request("the Idempotency-Key was used for another request; a new request has a new key")


def still_running() -> RefusedRequest:
    """Return the refusal of a request while the first request with its key has no response yet."""
    return RefusedRequest(
        UNAVAILABLE, "ServiceUnavailableException", "a request with this Idempotency-Key still runs, or has failed", ("Retry-After", "1")
    )
