"""The bytes of a metadata file as JSON: gzip undone and made, and of torn bytes the offset of the first wrong one.

What the JSON says is `read.py` and `write.py` for tables, `kernel/view` for views.
Spec: Appendix F, Naming for GZIP compressed Metadata JSON files.
"""

import re
import zlib
from typing import Any

import msgspec

from icefloe.errors import MetadataFormatError, Problem
from icefloe.kernel.limits import limits, raise_limit

_GZIP_LEVEL = 6
_UNCOUNTED_BYTES = 64 * 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_OFFSET = re.compile(r"\(byte (\d+)\)")
_TOP_LEVEL = msgspec.json.Decoder(dict[str, msgspec.Raw])


def deflated(text: bytes) -> bytes:
    """The text in gzip. Equal texts give equal bytes: wbits 31 is the gzip container and, unlike the gzip module, puts no time into its header."""
    deflater = zlib.compressobj(_GZIP_LEVEL, wbits=31)
    return deflater.compress(text) + deflater.flush()


def inflated(content: bytes, path: str) -> bytes:
    """The JSON text. Gzip is told by its first bytes, since names of metadata files differ between writers.

    Raises:
        MetadataFormatError: the gzip stream is corrupt or cut short, or unpacks to more than the limits `metadata_bytes` and
            `metadata_values`.
    """
    if not content.startswith(_GZIP_MAGIC):
        return content
    inflater = zlib.decompressobj(wbits=31)
    most = limits().metadata_bytes
    try:
        text = inflater.decompress(content, most)
    except zlib.error as error:
        raise MetadataFormatError(f"the metadata file is corrupt gzip ({error})", path=path) from error
    if inflater.unconsumed_tail:
        raise _above_limit(path, f"unpacks to more than {most} bytes, from {len(content)}", "metadata_bytes")
    if not inflater.eof:
        problem = Problem(where=f"byte {len(content)}", what="the gzip stream ends before its end mark")
        raise MetadataFormatError("the metadata file is cut short", path=path, problems=[problem])
    if len(text) > _UNCOUNTED_BYTES and (values := text.count(b",")) > limits().metadata_values:
        raise _above_limit(path, f"has {values} values in lists and objects, unpacked from {len(content)} bytes", "metadata_values")
    return text


def _above_limit(path: str, what: str, limit: str) -> MetadataFormatError:
    text = f"the metadata file {what}; the limit {limit} is {getattr(limits(), limit)}"
    return MetadataFormatError(text, path=path, next_step=raise_limit(limit))


def top_level(text: bytes, path: str) -> dict[str, msgspec.Raw]:
    """The keys of the file's object, their values as bytes. Raises `MetadataFormatError` where it is torn or holds something else."""
    try:
        return _TOP_LEVEL.decode(text)
    except msgspec.ValidationError as error:
        raise MetadataFormatError("the metadata file does not hold a JSON object", path=path) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _torn(error, text, path) from error
    except RecursionError as error:
        raise nested_too_deeply(path) from error


def parsed(text: bytes, path: str) -> Any:
    """The whole of it. Raises `MetadataFormatError` where it is torn."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _torn(error, text, path) from error
    except RecursionError as error:
        raise nested_too_deeply(path) from error


def nested_too_deeply(path: str | None) -> MetadataFormatError:
    """Return the error for JSON that ends the stack of whoever reads it."""
    problem = Problem(where="$", what="lists or objects stand in each other more deeply than any metadata has them")
    return MetadataFormatError("the metadata file is nested too deeply to be read", path=path, problems=[problem])


def _torn(error: Exception, text: bytes, path: str) -> MetadataFormatError:
    """The error for bytes that are no JSON, with the offset of the first wrong one."""
    match = _BYTE_OFFSET.search(str(error))
    if not text:
        offset, what = 0, "the file is empty"
    elif match is not None:
        what = str(error).removesuffix(match[0]).strip()
        offset = int(match[1]) - ("trailing" in what)  # msgspec has read one byte more when it says so
    else:
        offset, what = _first_byte_that_is_not_text(text)
    problem = Problem(where=f"byte {offset}", what=what)
    return MetadataFormatError(f"the metadata file is not whole JSON: {what} (byte {offset})", path=path, problems=[problem])


def _first_byte_that_is_not_text(text: bytes) -> tuple[int, str]:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start, "not UTF-8"
    return len(text), "the JSON text ends before its end"
