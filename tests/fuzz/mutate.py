"""Ways to damage inputs: bytes of any file, trees of JSON, and files whose inner checks (codecs, checksums, lengths) are corrected after the damage.

Every function takes its chances from a `random.Random`, so that a case is the same each time.
"""

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.spec.avro.avro_container import block_bytes, header_bytes, open_container, raw_blocks, read_block
from icefloe.spec.avro.varint import encode_long

Mutate = Callable[[Random, Sequence[bytes]], bytes]

_SIGNIFICANT_BYTES = b'\x00\x01\x02\x7f\x80\xfe\xff{}[]",:-0eE.'
_LARGE = [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 1 << 40, 1 << 31, 65_536, 0]
_NUMBERS = [
    *(
        0,
        1,
        -1,
        2,
        7,
        38,
        39,
        1000,
        2**31 - 1,
        2**31,
        -(2**31) - 1,
        2**53,
        2**63 - 1,
        2**63,
        -(2**63) - 1,
        2**64,
        10**30,
        2147483447,
        2147483546,
    ),
    *(0.5, -0.0, 1e308, 1.5e300, 3.0),
]
_TEXTS = [
    *("", "x", "0", "-1", "null", "main", "int", "long", "string", "unknown", "variant", "decimal(9,2)", "decimal(99,2)", "decimal(-1,-1)"),
    *("fixed[0]", "fixed[99999999999999]", "geometry(x, y, z)", "geography(a, b)", "list", "map", "struct", "bucket[0]", "bucket[99999999999]"),
    *("truncate[-1]", "truncate[1]", "identity", "void", "day", "hour", "zorder", "asc", "nulls-first", "and", "not", "in", "true", "literal"),
    *("2017-11-16", "2017-11-16T22:31:08.123456+00:00", "99999-99-99", "POINT (1 2)", "é" * 9, "\ud800", "\x00", "a.b", "$", "sql", "AAAA"),
    *("append", "tag", "branch", "lz4", "zstd", "deletion-vector-v1", "0" * 5000, "[" * 300, "reference", "transform", "timestamptz_ns"),
]  # fmt: skip


def any_bytes(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of the seeds with one to four pieces of damage."""
    content = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        _damage(chance, content, seeds)
    return bytes(content)


def _damage(chance: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    if not content:
        content += chance.randbytes(chance.randint(1, 40))
    at = chance.randrange(len(content)) if chance.random() < 0.8 else chance.choice([0, len(content) - 1, max(0, len(content) - 9)])
    end = min(len(content), at + chance.choice((1, 2, 4, 8, 16, 100)))
    match chance.randrange(9):
        case 0:
            content[at] ^= 1 << chance.randrange(8)
        case 1:
            content[at] = chance.choice(_SIGNIFICANT_BYTES)
        case 2:
            del content[at:end]
        case 3:
            content[at:at] = content[at:end] * chance.choice((1, 2, 50))
        case 4:
            del content[at:]
        case 5:
            other = chance.choice(seeds)
            start = chance.randrange(len(other) or 1)
            content[at:end] = other[start : start + chance.choice((1, 8, 64))]
        case 6:
            width = chance.choice((4, 8))
            number = chance.choice(_LARGE) & (1 << 8 * width) - 1
            content[at : at + width] = number.to_bytes(width, chance.choice(("little", "big")))
        case 7:  # a whole number in Avro's form, small, large or without an end
            content[at:end] = chance.choice(
                [b"\x01", b"\x00", b"\xfe\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01", b"\xff" * 12]
            )
        case _:
            content[at:end] = chance.randbytes(end - at)


def any_json(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of the seeds with nodes of its tree replaced, dropped, doubled or nested; it is always valid JSON."""
    tree = json.loads(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5))):
        tree = _changed(chance, tree, json.loads(chance.choice(seeds)))
    return json.dumps(tree).encode()


def json_or_bytes(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return mostly trees that are still JSON; else damaged bytes or very deep nesting."""
    drawn = chance.random()
    if drawn < 0.7:
        return any_json(chance, seeds)
    if drawn < 0.72:
        text = any_json(chance, seeds)
        at = chance.randrange(len(text))
        return text[:at] + chance.choice((b"[", b'{"a":')) * 100_000 + text[at:]
    return any_bytes(chance, seeds)


def _nodes(tree: Any) -> list[tuple[Any, Any]]:
    """Return the holder and the key or index of every node below the top."""
    nodes, waiting = [], [tree]
    while waiting:
        holder = waiting.pop()
        below = list(holder.items()) if isinstance(holder, dict) else list(enumerate(holder)) if isinstance(holder, list) else []
        nodes += [(holder, key) for key, _ in below]
        waiting += [value for _, value in below]
    return nodes


def _value(chance: Random, other: Any) -> Any:
    drawn = chance.randrange(8)
    if drawn < 2:
        return chance.choice(_NUMBERS)
    if drawn < 4:
        return chance.choice(_TEXTS)
    if drawn == 4:
        nodes = _nodes(other)
        if not nodes:
            return other
        holder, key = chance.choice(nodes)
        return holder[key]
    return chance.choice([None, True, False, [], {}, [[]], [None], {"": None}, [1, 1], {"type": "struct", "fields": []}])


def _changed(chance: Random, tree: Any, other: Any) -> Any:
    nodes = _nodes(tree)
    if not nodes or chance.random() < 0.01:
        return _value(chance, other)
    holder, key = chance.choice(nodes)
    match chance.randrange(7):
        case 0 | 1 | 2:
            holder[key] = _value(chance, other)
        case 3:
            del holder[key]
        case 4 if isinstance(holder, list):
            holder.insert(chance.randrange(len(holder) + 1), holder[key])
        case 4 | 5 if isinstance(holder, dict):
            holder[chance.choice([*_TEXTS[:6], *(name for name in holder)])] = holder[key]
        case 6:
            for _ in range(chance.choice((1, 2, 30, 200))):
                holder[key] = [holder[key]] if chance.random() < 0.5 else {"type": "list", "element": holder[key]}
        case _:
            holder[key] = [holder[key], holder[key]]
    return tree


def avro(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return an Avro file with damage under the codec, in the writer's schema, in a block's count, or anywhere."""
    drawn = chance.random()
    if drawn < 0.3:
        return any_bytes(chance, seeds)
    container = open_container(chance.choice(seeds), "seed")
    schema = container.schema_text
    blocks = [(block.count, read_block(container, block)) for block in raw_blocks(container)]
    if drawn < 0.5:
        schema = any_json(chance, [container.schema_text])
    elif drawn < 0.6 or not blocks:
        schema = any_bytes(chance, [container.schema_text])
    else:
        at = chance.randrange(len(blocks))
        count, data = blocks[at]
        others = [data, *(rows for _, rows in blocks)]
        blocks[at] = (
            count if chance.random() < 0.9 else chance.choice([0, 1, -1, count + 1, 10**6, 2**31, 2**62]),
            any_bytes(chance, others) if chance.random() < 0.95 else data,
        )
    told = {key: value.decode("utf-8", "replace") for key, value in container.metadata.items() if not key.startswith("avro.")}
    header = header_bytes(schema.decode("utf-8", "replace"), told, container.codec, container.sync)
    try:
        return header + b"".join(block_bytes(count, data, container.codec, container.sync) for count, data in blocks)
    except IcefloeError:
        return any_bytes(chance, seeds)


def vector(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return a framed deletion vector whose length and checksum match the damaged bitmap, so that the bitmap is parsed."""
    if chance.random() < 0.2:
        return any_bytes(chance, seeds)
    inner = chance.choice(seeds)[4:-4]
    bitmap = any_bytes(chance, [inner[4:], *(seed[8:-4] for seed in seeds)])
    body = inner[:4] + bitmap
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def puffin(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return a Puffin file with a damaged footer of the right length, damaged blobs, or damage anywhere. The seeds' footers are not compressed."""
    seed = chance.choice(seeds)
    size = struct.unpack("<i", seed[-12:-8])[0]
    blobs, payload = seed[: -16 - size], seed[-12 - size : -12]
    drawn = chance.random()
    if drawn < 0.5:
        payload = any_json(chance, [payload]) if drawn < 0.4 else any_bytes(chance, [payload])
    elif drawn < 0.75:
        blobs = seed[:4] + any_bytes(chance, [blobs[4:], *seeds])
    else:
        return any_bytes(chance, seeds)
    return blobs + b"PFA1" + payload + struct.pack("<i", len(payload)) + seed[-8:]


_SIZES = [0, 1, 2, 63, 64, 127, 128, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, -1, -2, -(2**31), -(2**62), -(2**63)]


def _size(chance: Random) -> bytes:
    """Return a size or a count in one of the encodings of file formats: zigzag and plain varints, little- and big-endian numbers."""
    number = chance.choice(_SIZES) + chance.choice((-1, 0, 0, 1))
    number = max(-(2**63), min(number, 2**63 - 1))
    match chance.randrange(4):
        case 0:
            return encode_long(number)
        case 1:
            raw, encoded = number & 2**64 - 1, bytearray()
            while raw > 127:
                encoded.append(raw & 127 | 128)
                raw >>= 7
            return bytes([*encoded, raw])
        case _:
            width = chance.choice((1, 2, 4, 8))
            return (number & (1 << 8 * width) - 1).to_bytes(width, chance.choice(("little", "big")))


def sizes(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of the seeds with one to three sizes written over its bytes, or inserted."""
    return _with_sizes(chance, chance.choice(seeds), 0)


def end_sizes(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return the same within the last bytes of a file, where columnar formats and Puffin have their footers; the seed's length mostly stays."""
    seed = chance.choice(seeds)
    return _with_sizes(chance, seed, max(0, len(seed) - chance.choice((12, 40, 200, 1500))))


def _with_sizes(chance: Random, seed: bytes, start: int) -> bytes:
    damaged = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at, size = chance.randrange(start, len(damaged) or 1), _size(chance)
        damaged[at : at + (len(size) if chance.random() < 0.8 else 0)] = size
    return bytes(damaged)


def avro_sizes(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return an Avro file with sizes inserted into a block under its codec, into a compressed block, or over a block's count and length."""
    container = open_container(chance.choice(seeds), "seed")
    parts = [container.content[: container.body_start]]
    blocks = list(raw_blocks(container))
    chosen, drawn = chance.randrange(len(blocks) or 1), chance.random()
    for index, block in enumerate(blocks):
        packed = container.content[block.start : block.end]
        if index != chosen:
            parts.append(container.content[block.offset : block.end + len(container.sync)])
        elif drawn < 0.6:
            parts.append(block_bytes(block.count, _with_sizes(chance, read_block(container, block), 0), container.codec, container.sync))
        elif drawn < 0.8:
            packed = _with_sizes(chance, packed, 0)
            parts += (encode_long(block.count), encode_long(len(packed)), packed, container.sync)
        else:
            parts += (_size(chance), _size(chance) if chance.random() < 0.5 else encode_long(len(packed)), packed, container.sync)
    return b"".join(parts)


def packed_json(chance: Random, seeds: Sequence[bytes]) -> bytes:
    """Return damaged JSON in gzip, at times with a megabyte of one byte in it, which compresses to a few bytes; or gzip whose own bytes are damaged."""
    text = json_or_bytes(chance, seeds)
    if chance.random() < 0.2:
        at = chance.randrange(len(text) or 1)
        text = text[:at] + chance.choice((b" ", b"[", b"0", b"0,", b"[],")) * chance.choice((10, 300_000)) + text[at:]
    packed = zlib.compressobj(6, wbits=31)
    compressed = packed.compress(text) + packed.flush()
    return compressed if chance.random() < 0.7 else any_bytes(chance, [compressed])
