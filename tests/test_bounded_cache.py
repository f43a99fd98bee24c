"""The bounded cache: what it keeps, what it drops first, and how often threads load a value that they share."""

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from icefloe.bounded_cache import BoundedCache


class SetClock:
    """A clock whose time a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_least_recently_used_value_is_dropped_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for number, key in enumerate("ab"):
        cache.put(key, number)
    assert cache.get("a") == 0
    cache.put("c", 2)
    assert (cache.get("b"), cache.keys()) == (None, ["a", "c"])


def test_values_are_bounded_in_their_cost() -> None:
    cache: BoundedCache[str, str] = BoundedCache(most_cost=10, largest=6)
    cache.put("a", "first", 5)
    cache.put("b", "second", 5)
    assert (cache.keys(), cache.cost) == (["a", "b"], 10)
    cache.put("b", "shorter", 1)
    cache.put("c", "third", 6)
    assert (cache.keys(), cache.cost) == (["b", "c"], 7)
    cache.put("b", "too large", 7)
    assert (cache.keys(), cache.cost) == (["c"], 6)
    assert (cache.pop("c"), cache.pop("c"), cache.cost) == ("third", None, 0)


def test_a_value_expires_after_it_was_put_however_often_it_is_used() -> None:
    clock = SetClock()
    cache: BoundedCache[str, int] = BoundedCache(expiry_s=10, clock=clock)
    cache.put("a", 1, 3)
    clock.now = 10
    assert cache.get("a") == 1
    clock.now = 10.5
    assert (cache.get("a"), cache.cost) == (None, 0)
    assert cache.get_or_load("a", lambda: (2, 0)) == 2


def test_a_cache_of_no_values_keeps_none() -> None:
    cache: BoundedCache[str, int] = BoundedCache(0)
    cache.put("a", 1)
    assert cache.get("a") is None
    assert cache.get_or_load("a", lambda: (2, 0)) == 2


class Squares(BoundedCache[str, int]):
    """A cache with a constructor of its own."""

    def __init__(self, most_squares: int) -> None:
        super().__init__(most_squares)


@pytest.mark.parametrize("kind", [BoundedCache, Squares])
def test_a_pickled_cache_arrives_empty_with_its_limits(kind: Callable[[int], BoundedCache[str, int]]) -> None:
    cache = kind(1)
    cache.put("a", 1)
    copy = pickle.loads(pickle.dumps(cache))
    assert type(copy) is type(cache)
    assert copy.get("a") is None
    copy.put("a", 1)
    copy.put("b", 2)
    assert copy.keys() == ["b"]


def test_threads_that_need_a_value_at_the_same_time_load_it_once_and_those_of_another_key_do_not_wait() -> None:
    cache: BoundedCache[str, int] = BoundedCache(most_cost=10)
    has_begun, may_end, loads = threading.Event(), threading.Event(), []

    def load() -> tuple[int, int]:
        loads.append(1)
        has_begun.set()
        may_end.wait()
        return len(loads), 1

    with ThreadPoolExecutor(4) as threads:
        values = [threads.submit(cache.get_or_load, "a", load)]
        has_begun.wait()
        values += [threads.submit(cache.get_or_load, "a", load) for _ in range(2)]
        assert threads.submit(cache.get_or_load, "b", lambda: (5, 0)).result() == 5
        may_end.set()
        assert [value.result() for value in values] == [1, 1, 1]
    assert loads == [1]


def test_a_load_that_fails_is_repeated_and_none_is_a_value() -> None:
    cache: BoundedCache[str, int | None] = BoundedCache()

    def fail() -> tuple[int, int]:
        raise ValueError("cannot load")

    with pytest.raises(ValueError, match="cannot load"):
        cache.get_or_load("a", fail)
    assert cache.get_or_load("a", lambda: (None, 0)) is None
    assert cache.get_or_load("a", fail) is None


def test_a_thread_that_waits_for_a_load_that_fails_loads_the_value_itself() -> None:
    cache: BoundedCache[str, int] = BoundedCache()
    has_begun, may_end = threading.Event(), threading.Event()

    def fail() -> tuple[int, int]:
        has_begun.set()
        may_end.wait()
        raise ValueError("cannot load")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(cache.get_or_load, "a", fail)
        has_begun.wait()
        second = threads.submit(cache.get_or_load, "a", lambda: (2, 0))
        may_end.set()
        assert second.result() == 2
        with pytest.raises(ValueError, match="cannot load"):
            first.result()
    assert cache.get("a") == 2
    assert cache._loads == {}
