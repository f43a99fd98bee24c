"""The text of a generated function: lines, indentation, names, and the few pieces of decoding that are inlined everywhere.

What is emitted when is `program.py` and `skip.py`. In the generated code `buf` is the bytes and `p` the position. Floor: kernel.avro.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Lines of Python under construction."""

    def __init__(self, depth: int = 0, constants: dict[str, Any] | None = None) -> None:
        self.lines: list[str] = []
        self.states: list[str] = []
        self.constants: dict[str, Any] = {} if constants is None else constants
        self._depth = depth
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indents what is emitted inside under `head`."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A name that no other part uses."""
        self._names += 1
        return f"{prefix}_{self._names}"

    def state(self, prefix: str, initial: str) -> str:
        """A variable that lives from record to record."""
        name = self.fresh(prefix)
        self.states.append(f"{name} = {initial}")
        return name

    def constant(self, value: Any) -> str:
        """A name for a value that the code is given from outside."""
        name = f"c_{len(self.constants)}"
        self.constants[name] = value
        return name

    def read_raw(self, name: str, at: str = "p") -> None:
        """A varint before zigzag, read at the position `at`, with up to five bytes inline: 34 bits hold counts and the sizes of most files."""
        self.line(f"{name} = buf[{at}]; {at} += 1")
        self._read_more(name, name, at, 7)

    def _read_more(self, name: str, last: str, at: str, shift: int) -> None:
        with self.block(f"if {last} > 127:"):
            if shift == 35:
                self.line(f"{name}, {at} = rest(buf, {at}, {name}, {shift})")
                return
            # The byte before left its continuation bit in the number; it is taken off together with adding this one.
            self.line(f"b = buf[{at}]; {at} += 1; {name} += (b << {shift}) - {1 << shift}")
            self._read_more(name, "b", at, shift + 7)

    def read_key(self, name: str) -> None:
        """A varint before zigzag that is nearly always one byte: a map's key."""
        self.line(f"{name} = buf[p]; p += 1")
        with self.block(f"if {name} > 127:"):
            self.line(f"{name}, p = rest(buf, p, {name}, 7)")

    def read_length(self, name: str) -> None:
        """A length before zigzag that is mostly one byte; 129 tests the continuation bit and the sign bit at once."""
        self.line(f"{name} = buf[p]; p += 1")
        with self.block(f"if {name} & 129:"):
            self.line(f"{name}, p = length(buf, p, {name})")

    def locate(self) -> None:
        """Makes `h` the index in `ends` of the first varint end at or after `p`, where two more varints must follow that end.

        The nearest guess is that only a closing zero and a union's branch lie in between; and there are no more ends than the `p - g` bytes.
        """
        with self.block("if ends is None:"):
            self.line("ends = varint_ends(buf); total = len(ends)")
        with self.block("if ends[h + 2] == p:"):
            self.line("h += 2")
        with self.block("else:"):
            self.line("t = h + p - g; h = bisect(ends, p, h, t if t < total else total)")
        self.line("g = p")

    def hop(self, varints: str) -> None:
        """Passes that many varints, at least one, after `locate`."""
        self.line(f"h += {varints}; g = p = ends[h - 1] + 1")
