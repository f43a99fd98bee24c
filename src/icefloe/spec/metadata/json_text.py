"""`JsonText`: a part of the JSON of a metadata file that successive versions share, so that each is compressed once, and the file made of such parts.

A gzip file is one deflate stream. A part is compressed up to a full flush, after which a stream refers to nothing before it: parts that were compressed apart
make one stream when they are joined. The checksum of the whole is computed from those of the parts (https://www.rfc-editor.org/rfc/rfc1952).

A large plain file consists of whole pages of memory: a disk takes these without a copy by the system (`io/local_file_io.py`), which would cost more than all
other work of a commit. Parts end with spaces, which JSON allows between any two tokens.
"""

import mmap
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from icefloe.spec.ports import PAGE_BYTES, Part

_GZIP_LEVEL = 6
# The fixed header of RFC 1952: deflate, no flags, no time (so that equal parts give equal bytes), level 6, Unix.
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"
# The final block of a deflate stream, without content.
_LAST_BLOCK = b"\x03\x00"
# Parts below this size are joined with their neighbours: each takes a call, and a flush, which takes bytes and drops what could be referred to.
_SMALL = 64 * 1024
# Bytes of a plain file from which on it consists of whole pages. A smaller one is copied in less than a millisecond.
_PAGED = 1024 * 1024
# Memory that a forked process shares until one writes to it. Windows has no flags.
_PRIVATE: dict[str, Any] = {"flags": mmap.MAP_PRIVATE} if hasattr(mmap, "MAP_PRIVATE") else {}
# The polynomial of gzip's CRC-32, lowest power in the highest bit.
_POLYNOMIAL = 0xEDB88320
_HIGHEST_BIT = 0x80000000


class JsonText:
    """Bytes of JSON text, whole tokens; compressed, and its checksum computed, when first needed."""

    __slots__ = ("_compressed", "_pages", "_text", "length")

    def __init__(self, text: bytes) -> None:
        self.length = len(text)
        self._text: bytes | None = text
        self._pages: mmap.mmap | None = None
        self._compressed: tuple[bytes, int, int] | None = None

    @property
    def text(self) -> bytes:
        """Return the text."""
        text, pages = self._text, self._pages  # in this order, since another thread may move the text
        return text if text is not None else pages[: self.length]  # type: ignore[index]

    def pages(self) -> mmap.mmap:
        """Return the text in whole pages of memory, with spaces up to the end; it is not kept elsewhere any more."""
        if self._pages is None:
            text = self.text
            pages = mmap.mmap(-1, -(-max(1, len(text)) // PAGE_BYTES) * PAGE_BYTES, **_PRIVATE)
            pages.write(text)
            pages.write(b" " * (len(pages) - len(text)))
            self._pages, self._text = pages, None
        return self._pages

    def compress_part(self) -> tuple[bytes, int, int]:
        """Return the part of a deflate stream, the CRC-32 of the text, and the factor by which the text after a checksum shifts it."""
        if self._compressed is None:
            deflater = zlib.compressobj(_GZIP_LEVEL, wbits=-zlib.MAX_WBITS)
            deflated = deflater.compress(self.text) + deflater.flush(zlib.Z_FULL_FLUSH)
            self._compressed = deflated, zlib.crc32(self.text), _shift(self.length)
        return self._compressed


def plain(parts: Sequence[JsonText]) -> list[Part]:
    """Return the text of all parts, the small ones joined with their neighbours; of a large file in whole pages, with spaces after each part."""
    joined = list(_without_small(parts))
    if sum(part.length for part in parts) >= _PAGED:
        with suppress(OSError):  # the process has as many maps of memory as the system allows
            return [part.pages() for part in joined]
    return [part.text for part in joined]


def gzip_parts(parts: Sequence[JsonText]) -> list[Part]:
    """Return a gzip file of the text of all parts, in parts."""
    content: list[Part] = [_GZIP_HEADER]
    checksum = 0
    for part in _without_small(parts):
        deflated, own_checksum, shift = part.compress_part()
        content.append(deflated)
        checksum = _product(checksum, shift) ^ own_checksum
    length = sum(part.length for part in parts)
    return [*content, _LAST_BLOCK, checksum.to_bytes(4, "little"), (length & 0xFFFFFFFF).to_bytes(4, "little")]


def _without_small(parts: Iterable[JsonText]) -> Iterable[JsonText]:
    """Yield the large parts as they are, and the small ones between them as one part each."""
    small: list[bytes] = []
    for part in parts:
        if part.length < _SMALL:
            small.append(part.text)
            continue
        if small:
            yield JsonText(b"".join(small))
            small = []
        yield part
    if small:
        yield JsonText(b"".join(small))


def _product(left: int, right: int) -> int:
    """Return the product of two polynomials over the integers modulo 2, modulo the polynomial of the checksum."""
    product = 0
    for _ in range(32):
        if left & _HIGHEST_BIT:
            product ^= right
        left = left << 1 & 0xFFFFFFFF
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product


def _shift(length: int) -> int:
    """Return x to the power of 8 * length, by which a checksum is multiplied where that many bytes follow."""
    shift, square, exponent = _HIGHEST_BIT, 0, 0
    while length:
        square = _square(exponent)
        if length & 1:
            shift = _product(square, shift)
        length, exponent = length >> 1, exponent + 1
    return shift


@cache
def _square(exponent: int) -> int:
    """Return x to the power of 8 * 2**exponent."""
    if exponent == 0:
        return _HIGHEST_BIT >> 8
    return _product(_square(exponent - 1), _square(exponent - 1))
