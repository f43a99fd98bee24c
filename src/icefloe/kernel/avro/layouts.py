"""What maps from id to bytes have looked like so far, as patterns: one match passes a whole map that looks like an earlier one, and picks values from it.

Bounds are such maps, and most of a manifest; the files of a table have bounds of the same columns, mostly of the same lengths. A match proves all of a map:
its count, every key, every length, the closing zero. What matches nothing is walked, so patterns decide about speed and nothing else.
Emitting the code that tries them is `skip.py`. Floor: kernel.avro. Spec: Apache Avro, Binary Encoding.
"""

import re
from collections.abc import Callable
from itertools import zip_longest

from icefloe.kernel.avro.failure import TornDataError
from icefloe.kernel.avro.varint import decode_long, decode_raw, encode_long

Match = Callable[[bytes, int], re.Match[bytes] | None]
# A pair's key and its length as they are encoded; None for a length that varies.
_Pair = tuple[bytes, bytes | None]

# How often one map of one writer is learned from; a pattern takes about a millisecond to make. Maps that are never alike are walked after that.
MAX_LEARNED = 16
# Larger maps would make large patterns.
_MAX_PAIRS = 500
# Dots one by one match faster than a number of them, as long as they are few.
_MANY_DOTS = 32
# Every length of one byte; the most frequent of bounds that are cut to 16 characters comes first.
_LENGTHS = (16, *range(16), *range(17, 64))
_ANY_VALUE = b"|".join(re.escape(encode_long(length)) + b".{%d}" % length for length in _LENGTHS)


class Layouts:
    """The layouts of one map of one writer, and what to take from them: the ids `wanted`, as the groups `w0`, `w1`... of a length's byte and the value.

    `matches` finds a pattern by the first byte of a map's count. Threads may share it, since any pattern that matches is right.
    """

    __slots__ = ("_known", "_left", "_wanted", "matches")

    def __init__(self, wanted: tuple[int, ...] = ()) -> None:
        self.matches: dict[int, Match] = {}
        self._known: dict[int, tuple[_Pair, ...]] = {}
        self._wanted = wanted
        self._left = MAX_LEARNED

    def learn(self, data: bytes, start: int) -> None:
        """Makes the pattern of the map at `start`, together with the one that did not match it. Damage is left to be found by who walks the map."""
        # An empty map has no layout, and one that tells its size is passed by that where nothing is wanted of it.
        if self._left <= 0 or not data[start] or (data[start] & 1 and not self._wanted):
            return
        self._left -= 1
        try:
            count, pairs = _layout_at(data, start)
        except (IndexError, TornDataError):
            return
        first, keys = data[start], {key for key, _ in pairs}
        merged = _merged(self._known.get(first), pairs)
        if not pairs or len(keys) < len(pairs) or merged == self._known.get(first) or self._too_long(pairs):
            return
        self._known[first] = merged
        self.matches[first] = re.compile(self._pattern(count, merged), re.DOTALL).match

    def _too_long(self, pairs: tuple[_Pair, ...]) -> bool:
        """Whether a wanted value has a length of more than one byte, which the groups do not allow for."""
        wanted = {encode_long(field_id) for field_id in self._wanted}
        return any(key in wanted and len(length or b"") > 1 for key, length in pairs)

    def _pattern(self, count: bytes, pairs: tuple[_Pair, ...]) -> bytes:
        groups = {encode_long(field_id): b"w%d" % index for index, field_id in enumerate(self._wanted)}
        found = [_pair_pattern(key, length, groups.pop(key, None)) for key, length in pairs]
        # A group that never takes part gives None.
        absent = [b"(?P<%b>(?!))?" % name for name in groups.values()]
        size = b"(?P<size>[\\x80-\\xff]{0,4}[\\x00-\\x7f])" if count[0] & 1 else b""
        return b"".join((*absent, re.escape(count), size, *found, b"\\x00"))


def tells_its_size(found: re.Match[bytes]) -> bool:
    """Whether the size that a map of an odd first byte tells is that of its pairs."""
    size, _ = decode_raw(found["size"], 0)
    return size == found.end() - 1 - found.end("size") << 1


def _pair_pattern(key: bytes, length: bytes | None, group: bytes | None) -> bytes:
    if length is None:
        rest = b"(?:%b)" % _ANY_VALUE
    else:
        size, _ = decode_long(length, 0)
        rest = re.escape(length) + (b"." * size if size < _MANY_DOTS else b".{%d}" % size)
    return re.escape(key) + (b"(?P<%b>%b)" % (group, rest) if group else rest)


def _layout_at(data: bytes, start: int) -> tuple[bytes, tuple[_Pair, ...]]:
    """The count and the pairs of the map at `start` as they are encoded; no pairs where it is not one run, or too large."""
    raw, position = decode_raw(data, start)
    count = data[start:position]
    number = raw + (raw & 1) >> 1
    if raw & 1:
        _, position = decode_raw(data, position)
    pairs: list[_Pair] = []
    for _ in range(number if number <= _MAX_PAIRS else 0):
        field_id, after_key = decode_long(data, position)
        size, after_length = decode_long(data, after_key)
        key = data[position:after_key]
        if size < 0 or key != encode_long(field_id):
            return count, ()
        pairs.append((key, data[after_key:after_length]))
        position = after_length + size
    return count, () if data[position] else tuple(pairs)


def _merged(known: tuple[_Pair, ...] | None, pairs: tuple[_Pair, ...]) -> tuple[_Pair, ...]:
    """The known pairs with lengths that vary where these differ; these alone where the keys are others."""
    both = list(zip_longest(known or (), pairs, fillvalue=(b"", None)))
    if any(old[0] != new[0] for old, new in both):
        return pairs
    return tuple((key, length if length == other else None) for (key, length), (_, other) in both)
