"""`Tokens`: the words of a statement of Iceberg's own SQL, read one after the other, and where a wrong one stands."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from icefloe.spark.bridge.spark_errors import StatementSyntaxError

_TOKEN = re.compile(
    r"""(?P<space>\s+|--(?:\\\n|[^\r\n])*)
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<number>\d+[LlSsYy]?(?!\w))
      | (?P<word>\w+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_SUFFIXES = "LlSsYy"  # of numbers, by which SQL says their type


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word, a `quoted` name without its quotes, a `string` as it stands, a `number` or a single `sign`, and where it begins and stops in the text."""

    kind: str
    text: str
    start: int
    stop: int


class Tokens:
    """A cursor. What is asked for and is not there is a `StatementSyntaxError`; keywords are taken in any case."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(_tokens_of(text))
        while self._tokens and self._tokens[-1].text == ";":
            self._tokens.pop()
        self._place = 0

    @property
    def at_end(self) -> bool:
        return self._place >= len(self._tokens)

    @property
    def position(self) -> int:
        """Where the next token begins in the text."""
        return len(self.text) if self.at_end else self._tokens[self._place].start

    def take(self, *words: str) -> bool:
        """Whether the next words are these; they are passed then."""
        following = self._tokens[self._place : self._place + len(words)]
        if [token.text.upper() for token in following if token.kind in ("word", "sign")] != list(words):
            return False
        self._place += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Passes these words."""
        if not self.take(*words):
            raise self.wrong(f"{' '.join(words)} was expected")

    def one_of(self, *words: str) -> str:
        """Passes one of these words and returns it."""
        for word in words:
            if self.take(word):
                return word
        raise self.wrong(f"one of {', '.join(words)} was expected")

    def name(self) -> str:
        """A name, quoted or not."""
        if not self.at_end and self._tokens[self._place].kind in ("word", "quoted"):
            self._place += 1
            return self._tokens[self._place - 1].text
        raise self.wrong("a name was expected")

    def dotted_name(self) -> tuple[str, ...]:
        """The parts of a name such as lake.db.t."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return tuple(parts)

    def number(self) -> int:
        """A whole number, which may have a minus sign, and a letter behind it that says its type."""
        sign = -1 if self.take("-") else 1
        if not self.at_end and self._tokens[self._place].kind == "number":
            self._place += 1
            return sign * int(self._tokens[self._place - 1].text.rstrip(_SUFFIXES))
        raise self.wrong("a number was expected")

    def string(self) -> str:
        """A string's value."""
        if not self.at_end and self._tokens[self._place].kind == "string":
            self._place += 1
            return unquoted(self._tokens[self._place - 1].text)
        raise self.wrong("a text in quotes was expected")

    def is_number(self) -> bool:
        """Whether a number comes next, with a minus sign or not."""
        following = self._tokens[self._place : self._place + 2]
        return bool(following) and following[following[0].text == "-" and len(following) > 1].kind == "number"

    def is_string(self) -> bool:
        """Whether the next token is a text in quotes."""
        return not self.at_end and self._tokens[self._place].kind == "string"

    def rest(self) -> str:
        """The text from the next token to the last one, which are passed."""
        found = "" if self.at_end else self.text[self.position : self._tokens[-1].stop]
        self._place = len(self._tokens)
        return found

    def until(self, *signs: str) -> str:
        """The text up to the next of these signs; what stands there is passed, and the sign is not."""
        start = stop = self.position
        while not self.at_end and not (self._tokens[self._place].kind == "sign" and self._tokens[self._place].text in signs):
            stop = self._tokens[self._place].stop
            self._place += 1
        return self.text[start:stop]

    def skip(self) -> None:
        """Passes the next token, whatever it is."""
        self._place += 1

    def end(self) -> None:
        """The statement is over here."""
        if not self.at_end:
            raise self.wrong("the statement should be over")

    def wrong(self, what: str) -> StatementSyntaxError:
        """The error at the next token."""
        near = "end of input" if self.at_end else f"'{self._tokens[self._place].text}'"
        return StatementSyntaxError(what, near=near, text=self.text, start=self.position)


def unquoted(text: str) -> str:
    """The value of a string literal of Spark's."""
    quote, inner = text[0], text[1:-1].replace(text[0] * 2, text[0])
    escapes = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "\\": "\\", quote: quote}
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), inner, flags=re.DOTALL)


def _tokens_of(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        if text.startswith("/*", place):
            place = _end_of_comment(text, place)
        elif match := _TOKEN.match(text, place):
            place = match.end()
            if match.lastgroup != "space":
                yield _token(match)


def _end_of_comment(text: str, start: int) -> int:
    """Comments in brackets may hold others."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def _token(match: re.Match[str]) -> Token:
    kind, text = match.lastgroup or "", match[0]
    shown = text[1:-1].replace("``", "`") if kind == "quoted" else text
    return Token(kind=kind, text=shown, start=match.start(), stop=match.end())
