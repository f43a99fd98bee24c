"""Emitting code that passes over values nobody asked for, as fast as their form allows.

Floor: kernel.avro. Spec: Apache Avro, Binary Encoding.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from icefloe.kernel.avro.schema import AvroType, kind_of
from icefloe.kernel.avro.source import Source

# One varint each: a boolean's byte is 0 or 1, which is a varint too.
_ONE_VARINT = frozenset({"int", "long", "enum", "boolean"})
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
    elif form in ("bytes", "string"):
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


def _emit_skip_items(source: Source, parts: tuple[AvroType, ...]) -> None:
    counts = [varint_count(part) for part in parts]
    varints = 0 if None in counts else sum(count for count in counts if count is not None)
    with emit_items(source, jump_sized=True) as count:
        if varints:
            source.locate()
            source.hop(f"{varints} * {count}")
            return
        head = len(source.lines)
        with source.block(f"for _ in range({count}):"):
            for part in parts:
                emit_skip(source, part)
        if len(source.lines) == head + 1:
            # Items without bytes need no loop, which a damaged count would make endless.
            source.lines.pop()
            source.line("pass")
