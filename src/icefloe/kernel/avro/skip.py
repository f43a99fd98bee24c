"""Emitting code that passes over values nobody asked for, as fast as their form allows.

Floor: kernel.avro. Spec: Apache Avro, Binary Encoding.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from icefloe.kernel.avro.layouts import Layouts
from icefloe.kernel.avro.schema import AvroType, kind_of
from icefloe.kernel.avro.source import Source

NUMBERS = frozenset({"int", "long", "enum"})
# One varint each: a boolean's byte is 0 or 1, which is a varint too.
_ONE_VARINT = NUMBERS | {"boolean"}
_BYTES = frozenset({"bytes", "string"})
_FIXED_WIDTHS = {"float": 4, "double": 8, "null": 0}


def varint_count(kind: AvroType) -> int | None:
    """How many varints a value of this type is made of, None where it is not made of a fixed number of them only."""
    form = kind_of(kind)
    if form in _ONE_VARINT:
        return 1
    if form == "record":
        counts = [varint_count(field["type"]) for field in kind["fields"]]
        return None if None in counts else sum(count for count in counts if count is not None)
    return None


@contextmanager
def emit_items(source: Source, *, jump_sized: bool = False) -> Iterator[str]:
    """The loop over an array's runs of items; what is emitted inside handles one run, whose length has the name that is given.

    A run with a negative count tells its size in bytes; with `jump_sized` it is passed over by that. `stop` is where a sized run
    ends, else 0.
    """
    count = source.fresh("n")
    source.read_raw(count)
    with source.block(f"while {count}:"):
        with source.block(f"if {count} & 1:"):
            source.read_raw("v")
            with source.block("if v & 1:"):
                source.line("raise Torn(p, 'a size is negative')")
            if jump_sized:
                source.line("p += v >> 1")
            else:
                source.line(f"{count} = ({count} + 1) >> 1; stop = p + (v >> 1)")
        with source.block("else:"):
            source.line(f"{count} >>= 1; stop = 0")
            if jump_sized:
                yield count
        if not jump_sized:
            yield count
        source.read_raw(count)


def emit_skip(source: Source, kind: AvroType) -> None:
    """Passes over one value. Raises `ValueError` for a type that Avro does not have."""
    form = kind_of(kind)
    if form in _ONE_VARINT:
        with source.block("while buf[p] > 127:"):
            source.line("p += 1")
        source.line("p += 1")
    elif form in _BYTES:
        source.read_length("v")
        source.line("p += v >> 1")
    elif form in _FIXED_WIDTHS or form == "fixed":
        width = int(kind["size"]) if form == "fixed" else _FIXED_WIDTHS[form]
        if width:
            source.line(f"p += {width}")
    elif form == "record":
        for field in kind["fields"]:
            emit_skip(source, field["type"])
    elif form == "union":
        _emit_skip_union(source, kind)
    elif form == "array" and pair_value(kind) == "bytes":
        with emit_known_layout(source):
            _emit_skip_items(source, (kind["items"],))
    elif form == "array":
        _emit_skip_items(source, (kind["items"],))
    elif form == "map":
        _emit_skip_items(source, ("string", kind["values"]))
    else:
        raise ValueError(f"{form!r} is not an Avro type")


def _emit_skip_union(source: Source, kind: AvroType) -> None:
    source.line("u = buf[p]; p += 1")
    for index, branch in enumerate(kind):
        with source.block(f"{'elif' if index else 'if'} u == {index << 1}:"):
            emit_skip(source, branch)
            source.line("pass")
    with source.block("else:"):
        source.line("raise Torn(p, 'a union has no such branch')")


def pair_value(kind: AvroType) -> str | None:
    """`number` or `bytes`: what an array of key-value records maps its ids to; None where it is not such a map."""
    items = kind["items"]
    if kind_of(items) != "record" or len(items["fields"]) != 2 or kind_of(items["fields"][0]["type"]) not in NUMBERS:
        return None
    form = kind_of(items["fields"][1]["type"])
    return "number" if form in NUMBERS else "bytes" if form in _BYTES else None


@contextmanager
def emit_known_layout(source: Source, columns: tuple[tuple[int, str], ...] = ()) -> Iterator[None]:
    """Passes a map from id to bytes that looks like an earlier one, its values into variables by id; what is emitted inside walks any other."""
    layouts = Layouts(tuple(field_id for field_id, _ in columns))
    find, learn = source.constant(layouts.matches.get), source.constant(layouts.learn)
    source.line(f"c = buf[p]; match = {find}(c); m = match and match(buf, p)")
    with source.block("if m and (not c & 1 or tells_its_size(m)):"):
        source.line("p = m.end()")
        for index, (_, variable) in enumerate(columns):
            source.line(f"v = m['w{index}']; {variable} = v and v[1:]")
    with source.block("else:"):
        source.line(f"{learn}(buf, p)")
        yield


def _emit_skip_items(source: Source, parts: tuple[AvroType, ...]) -> None:
    counts = [varint_count(part) for part in parts]
    varints = 0 if None in counts else sum(count for count in counts if count is not None)
    if varints:
        _emit_skip_varints(source, varints)
        return
    with emit_items(source, jump_sized=True) as count:
        # Passing over fixed widths reads no byte, so that a damaged count would be believed for a very long time.
        source.line(f"if {count} > len(buf): raise Torn(p, 'an array claims more items than there are bytes')")
        head = len(source.lines)
        with source.block(f"for _ in range({count}):"):
            for part in parts:
                emit_skip(source, part)
        if len(source.lines) == head + 1:
            # Items without bytes need no loop, which a damaged count would make endless.
            del source.lines[head - 1 :]
            source.line("pass")


def _emit_skip_varints(source: Source, varints: int) -> None:
    """Items of so many varints each: one step over the count, if it takes a byte, and all items; then nearly always the closing zero."""
    source.line("n = buf[p]")
    with source.block("if n and not n & 129:"):
        source.locate()
        source.hop(f"{varints} * (n >> 1) + 1" if varints != 2 else "n + 1")
        source.line("n = buf[p]")
    with source.block("if n:"), emit_items(source, jump_sized=True) as count:
        source.locate()
        source.hop(f"{varints} * {count}")
    with source.block("else:"):
        source.line("p += 1")
