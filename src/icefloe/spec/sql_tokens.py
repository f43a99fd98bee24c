"""`Tokens`: a cursor over the tokens of an SQL text, for the recursive-descent parsers of statements (package `statements`) and sort orders.

An unexpected token raises `StatementSyntaxError`, which Spark reports with its line and column.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from icefloe.errors import InvalidInputError

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
_SUFFIXES = "LlSsYy"  # letters after a number that specify its SQL type


class StatementSyntaxError(InvalidInputError):
    """A syntax error in a sort order, or in a statement that begins like one of Iceberg's SQL extensions.

    Attributes:
        expected: A text that states what was expected, such as `a number was expected`.
        near: The token that was found instead.
        text: The text of the statement.
        start: Index of the first character of the token in `text`, from 0.
    """

    def __init__(self, message: str, *, near: str, text: str, start: int) -> None:
        super().__init__(f"syntax error at or near {near}: {message}")
        self.expected, self.near, self.text, self.start = message, near, text, start

    @property
    def line(self) -> int:
        """Return the line of the token, from 1."""
        return self.text.count("\n", 0, self.start) + 1

    @property
    def position(self) -> int:
        """Return the index of the token in its line, from 0."""
        return self.start - (self.text.rfind("\n", 0, self.start) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token.

    Attributes:
        kind: `word`, `quoted` (a name in backticks), `string`, `number` or `sign`.
        text: its text. The backticks of a quoted name are removed.
        start: offset of its first character.
        stop: offset after its last character.
    """

    kind: str
    text: str
    start: int
    stop: int


class Tokens:
    """A cursor over the tokens of a text. Methods that require a token raise `StatementSyntaxError` if the next token is different.

    Keywords match in any letter case.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(_tokens_of(text))
        while self._tokens and self._tokens[-1].text == ";":
            self._tokens.pop()
        self._place = 0

    @property
    def at_end(self) -> bool:
        """Return True if there are no more tokens."""
        return self._place >= len(self._tokens)

    @property
    def position(self) -> int:
        """Return the offset in the text at which the next token begins."""
        return len(self.text) if self.at_end else self._tokens[self._place].start

    def take(self, *words: str) -> bool:
        """If the next tokens are these words, skip them and return True. Otherwise return False."""
        following = self._tokens[self._place : self._place + len(words)]
        if [token.text.upper() for token in following if token.kind in ("word", "sign")] != list(words):
            return False
        self._place += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Skip these words, which must be the next tokens."""
        if not self.take(*words):
            raise self.syntax_error(f"{' '.join(words)} was expected")

    def one_of(self, *words: str) -> str:
        """Skip the next word, which must be one of these, and return it."""
        for word in words:
            if self.take(word):
                return word
        raise self.syntax_error(f"one of {', '.join(words)} was expected")

    def name(self) -> str:
        """Read a name, quoted or not."""
        if not self.at_end and self._tokens[self._place].kind in ("word", "quoted"):
            self._place += 1
            return self._tokens[self._place - 1].text
        raise self.syntax_error("a name was expected")

    def dotted_name(self) -> tuple[str, ...]:
        """Read a dotted name, such as `lake.db.t`, and return its parts."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return tuple(parts)

    def number(self) -> int:
        """Read an integer, which may have a minus sign and a letter for its SQL type."""
        sign = -1 if self.take("-") else 1
        if not self.at_end and self._tokens[self._place].kind == "number":
            self._place += 1
            return sign * int(self._tokens[self._place - 1].text.rstrip(_SUFFIXES))
        raise self.syntax_error("a number was expected")

    def string(self) -> str:
        """Read a string literal and return its value."""
        if not self.at_end and self._tokens[self._place].kind == "string":
            self._place += 1
            return unquote(self._tokens[self._place - 1].text)
        raise self.syntax_error("a text in quotes was expected")

    def is_number(self) -> bool:
        """Return True if the next token is a number, with or without a minus sign."""
        following = self._tokens[self._place : self._place + 2]
        return bool(following) and following[following[0].text == "-" and len(following) > 1].kind == "number"

    def is_string(self) -> bool:
        """Return True if the next token is a string literal."""
        return not self.at_end and self._tokens[self._place].kind == "string"

    def rest(self) -> str:
        """Read the text from the next token to the last token."""
        rest = "" if self.at_end else self.text[self.position : self._tokens[-1].stop]
        self._place = len(self._tokens)
        return rest

    def until(self, *signs: str) -> str:
        """Read the text before the first of these signs. The sign itself is not skipped."""
        start = stop = self.position
        while not self.at_end and not (self._tokens[self._place].kind == "sign" and self._tokens[self._place].text in signs):
            stop = self._tokens[self._place].stop
            self._place += 1
        return self.text[start:stop]

    def skip(self) -> None:
        """Skip the next token."""
        self._place += 1

    def end(self) -> None:
        """Require the end of the statement."""
        if not self.at_end:
            raise self.syntax_error("the statement should be over")

    def syntax_error(self, what: str) -> StatementSyntaxError:
        """Return the syntax error for the next token. `what` states what was expected, such as `a number was expected`."""
        near = "end of input" if self.at_end else f"'{self._tokens[self._place].text}'"
        return StatementSyntaxError(what, near=near, text=self.text, start=self.position)


def unquote(text: str) -> str:
    """Return the value of a string literal of Spark's SQL."""
    quote, inner = text[0], text[1:-1].replace(text[0] * 2, text[0])
    escapes = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "\\": "\\", quote: quote}
    return re.sub(r"\\(.)", lambda escape: escapes.get(escape[1], escape[1]), inner, flags=re.DOTALL)


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
    """Return the offset after the bracketed comment at `start`, which may contain other comments; the end of the text if the comment is not closed."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def _token(match: re.Match[str]) -> Token:
    kind, text = match.lastgroup or "", match[0]
    value = text[1:-1].replace("``", "`") if kind == "quoted" else text
    return Token(kind=kind, text=value, start=match.start(), stop=match.end())
