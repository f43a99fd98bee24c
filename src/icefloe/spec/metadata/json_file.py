"""The bytes of a metadata file as JSON: gzip compression, and the byte offset of the first wrong byte of damaged files.

The meaning of the JSON is in `metadata_reader.py` and `metadata_writer.py` for tables, in `spec/view` for views.
Spec: Appendix F, Naming for GZIP compressed Metadata JSON files.
"""

import re
import zlib
from typing import Any

import msgspec

from icefloe.errors import MetadataFormatError, Problem
from icefloe.spec.limits import limits, raise_limit

_GZIP_LEVEL = 6
_UNCOUNTED_BYTES = 64 * 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_OFFSET = re.compile(r"\(byte (\d+)\)")
_TOP_LEVEL = msgspec.json.Decoder(dict[str, msgspec.Raw])


def deflate(text: bytes) -> bytes:
    """Compress text with gzip. Equal texts give equal bytes: zlib's gzip container (wbits 31), unlike the gzip module, has no time in its header."""
    deflater = zlib.compressobj(_GZIP_LEVEL, wbits=31)
    return deflater.compress(text) + deflater.flush()


def inflate(content: bytes, path: str) -> bytes:
    """Return the JSON text of a file. Gzip is recognized by its first bytes, since names of metadata files differ between writers.

    Raises:
        MetadataFormatError: the gzip stream is damaged or cut short, or its content exceeds the limits `metadata_bytes` or `metadata_values`.
    """
    if not content.startswith(_GZIP_MAGIC):
        return content
    inflater = zlib.decompressobj(wbits=31)
    max_bytes = limits().metadata_bytes
    try:
        text = inflater.decompress(content, max_bytes)
    except zlib.error as error:
        raise MetadataFormatError(f"the metadata file is corrupt gzip ({error})", path=path) from error
    if inflater.unconsumed_tail:
        raise _above_limit(path, f"unpacks to more than {max_bytes} bytes, from {len(content)}", "metadata_bytes")
    if not inflater.eof:
        problem = Problem(where=f"byte {len(content)}", what="the gzip stream ends before its end mark")
        raise MetadataFormatError("the metadata file is cut short", path=path, problems=[problem])
    if inflater.unused_data:  # refused: the file must end with the length of its text, which `MetadataCache` uses to limit its memory
        problem = Problem(where=f"byte {len(content) - len(inflater.unused_data)}", what="bytes follow the end mark of the gzip stream")
        raise MetadataFormatError("the metadata file is corrupt gzip", path=path, problems=[problem])
    if len(text) > _UNCOUNTED_BYTES and (values := text.count(b",")) > limits().metadata_values:
        raise _above_limit(path, f"has {values} values in lists and objects, unpacked from {len(content)} bytes", "metadata_values")
    return text


def _above_limit(path: str, what: str, limit: str) -> MetadataFormatError:
    text = f"the metadata file {what}; the limit {limit} is {getattr(limits(), limit)}"
    return MetadataFormatError(text, path=path, next_step=raise_limit(limit))


def top_level(text: bytes, path: str) -> dict[str, msgspec.Raw]:
    """Return the keys of the file's JSON object with their undecoded values.

    Raises:
        MetadataFormatError: the file is damaged, or its JSON is not an object.
    """
    try:
        return _TOP_LEVEL.decode(text)
    except msgspec.ValidationError as error:
        raise MetadataFormatError("the metadata file does not hold a JSON object", path=path) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _json_error(error, text, path) from error
    except RecursionError as error:
        raise nested_too_deeply(path) from error


def parse_json(text: bytes, path: str) -> Any:
    """Decode the whole JSON text.

    Raises:
        MetadataFormatError: the file is damaged.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _json_error(error, text, path) from error
    except RecursionError as error:
        raise nested_too_deeply(path) from error


def nested_too_deeply(path: str | None) -> MetadataFormatError:
    """Return the error for JSON that is nested so deeply that decoding it exhausts the stack."""
    problem = Problem(where="$", what="lists or objects are nested more deeply than in any valid metadata")
    return MetadataFormatError("the metadata file is nested too deeply to be read", path=path, problems=[problem])


def _json_error(error: Exception, text: bytes, path: str) -> MetadataFormatError:
    """Return the error for text that is not JSON, with the offset of the first wrong byte."""
    match = _BYTE_OFFSET.search(str(error))
    if not text:
        offset, what = 0, "the file is empty"
    elif match is not None:
        what = str(error).removesuffix(match[0]).strip()
        offset = int(match[1]) - ("trailing" in what)  # for trailing characters, the position in msgspec's error is one byte too far
    else:
        offset, what = _first_byte_that_is_not_utf8(text)
    problem = Problem(where=f"byte {offset}", what=what)
    return MetadataFormatError(f"the metadata file is not whole JSON: {what} (byte {offset})", path=path, problems=[problem])


def _first_byte_that_is_not_utf8(text: bytes) -> tuple[int, str]:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start, "not UTF-8"
    return len(text), "the JSON text ends before its end"
