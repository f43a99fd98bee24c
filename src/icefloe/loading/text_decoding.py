"""Conversion of text files of any encoding to UTF-8 without a byte order mark."""

import codecs
from collections.abc import Callable
from typing import Final

from icefloe.errors import InvalidInputError

_OTHER_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def utf8_decoder(encoding: str, path: str) -> Callable[[bytes, bool], bytes]:
    """Return a function that converts the blocks of one file, in their order, to UTF-8 without a byte order mark. See `decode` of `open_bytes`.

    A file in UTF-8 is not checked for invalid characters, because the reader reports them with their lines; but the function raises `InvalidInputError` if the
    file begins with the byte order mark of another encoding. For other encodings, it raises `UnicodeError` for an invalid character.

    Args:
        encoding: The encoding of the file.
        path: The path of the file, for errors.
    """
    is_utf8 = codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
    decode = None if is_utf8 else codecs.getincrementaldecoder(encoding)()
    is_first = True

    def to_utf8(block: bytes, is_last: bool) -> bytes:
        nonlocal is_first
        if decode is not None:
            text = decode.decode(block, is_last)
            starts, is_first = is_first, is_first and not text
            return (text.removeprefix("\ufeff") if starts else text).encode()
        starts, is_first = is_first, False
        if not starts:
            return block
        other = next((name for mark, name in _OTHER_MARKS if block.startswith(mark)), None)
        if other is not None:
            raise InvalidInputError("the file is not UTF-8", path=path, next_step=f"pass --option encoding={other}")
        return block.removeprefix(codecs.BOM_UTF8)

    return to_utf8
