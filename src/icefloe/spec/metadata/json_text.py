"""`JsonText`: a part of the JSON of a metadata file. Successive versions of a table share parts, so that each part is compressed only once.

A gzip file is one deflate stream. Each part is compressed up to a full flush, after which the stream does not refer to earlier bytes. So separately compressed
parts form one stream when they are joined. The checksum of the file is computed from those of the parts (https://www.rfc-editor.org/rfc/rfc1952).

A large uncompressed file consists of whole pages of memory, which a disk can write without a copy by the operating system (`io/local_file_io.py`); the copy
would take longer than all other work of a commit. Parts are filled up to whole pages with spaces, which JSON allows between any two tokens.
"""

import mmap
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from icefloe.spec.ports import PAGE_BYTES, Part

_GZIP_LEVEL = 6
# The fixed gzip header of RFC 1952: deflate, no flags, no time (so that equal parts give equal bytes), level 6, Unix.
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"
# The final block of a deflate stream, without content.
_LAST_BLOCK = b"\x03\x00"
# Parts below this size are joined with their neighbours, because each part needs a call and a flush, and flushes make the compression worse.
_SMALL = 64 * 1024
# The size from which on an uncompressed file consists of whole pages. Copying a smaller file takes less than a millisecond.
_PAGED = 1024 * 1024
# Flags of private memory, which a forked process shares until one of the processes writes to it. Windows has no flags.
_PRIVATE: dict[str, Any] = {"flags": mmap.MAP_PRIVATE} if hasattr(mmap, "MAP_PRIVATE") else {}
# The polynomial of gzip's CRC-32, lowest power in the highest bit.
_POLYNOMIAL = 0xEDB88320
_HIGHEST_BIT = 0x80000000


class JsonText:
    """A piece of a JSON text that consists of whole tokens. Its compressed form and its checksum are computed once, when they are first needed."""

    __slots__ = ("_compressed", "_pages", "_text", "length")

    def __init__(self, text: bytes) -> None:
        self.length = len(text)
        self._text: bytes | None = text
        self._pages: mmap.mmap | None = None
        self._compressed: tuple[bytes, int, int] | None = None

    @property
    def text(self) -> bytes:
        """Return the text."""
        text, pages = self._text, self._pages  # in this order, because another thread may move the text to pages meanwhile
        return text if text is not None else pages[: self.length]  # type: ignore[index]

    def pages(self) -> mmap.mmap:
        """Move the text to whole pages of memory, fill the last page with spaces, and return the pages."""
        if self._pages is None:
            text = self.text
            pages = mmap.mmap(-1, -(-max(1, len(text)) // PAGE_BYTES) * PAGE_BYTES, **_PRIVATE)
            pages.write(text)
            pages.write(b" " * (len(pages) - len(text)))
            self._pages, self._text = pages, None
        return self._pages

    def compress_part(self) -> tuple[bytes, int, int]:
        """Return the compressed text, its CRC-32, and the factor by which the CRC-32 of preceding text is multiplied when this text is appended."""
        if self._compressed is None:
            deflater = zlib.compressobj(_GZIP_LEVEL, wbits=-zlib.MAX_WBITS)
            deflated = deflater.compress(self.text) + deflater.flush(zlib.Z_FULL_FLUSH)
            self._compressed = deflated, zlib.crc32(self.text), _shift(self.length)
        return self._compressed


def plain(parts: Sequence[JsonText]) -> list[Part]:
    """Return the content of an uncompressed file, as a list of buffers. Small successive parts are joined.

    If the file has at least `_PAGED` bytes, each buffer consists of whole pages of memory, and spaces fill its last page, unless the system allows no more
    memory maps.
    """
    joined = list(_without_small(parts))
    if sum(part.length for part in parts) >= _PAGED:
        with suppress(OSError):  # the process already has as many memory maps as the system allows
            return [part.pages() for part in joined]
    return [part.text for part in joined]


def gzip_parts(parts: Sequence[JsonText]) -> list[Part]:
    """Return the content of a gzip file with the text of all parts, as a list of buffers: its header, the compressed parts and its end."""
    content: list[Part] = [_GZIP_HEADER]
    checksum = 0
    for part in _without_small(parts):
        deflated, own_checksum, shift = part.compress_part()
        content.append(deflated)
        checksum = _product(checksum, shift) ^ own_checksum
    length = sum(part.length for part in parts)
    return [*content, _LAST_BLOCK, checksum.to_bytes(4, "little"), (length & 0xFFFFFFFF).to_bytes(4, "little")]


def _without_small(parts: Iterable[JsonText]) -> Iterable[JsonText]:
    """Yield the parts in order, with successive small parts joined to one part."""
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
    """Return the product of two polynomials over GF(2), modulo the polynomial of the checksum."""
    product = 0
    for _ in range(32):
        if left & _HIGHEST_BIT:
            product ^= right
        left = left << 1 & 0xFFFFFFFF
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product


def _shift(length: int) -> int:
    """Return x to the power of 8 * length, the factor of a checksum if this many bytes follow."""
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
