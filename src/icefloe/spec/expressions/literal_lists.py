"""Parses long IN lists of plain literals separately from the rest of a filter, because sqlglot takes 0.1 ms per literal, and a list may have 100,000.

A list of numbers, texts, dates, timestamps or hexadecimal bytes is cut out of the text and replaced by a parameter. Lists with anything else, such as a column,
a comment or other quotes, stay in the text, so that only sqlglot's grammar defines what they mean.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

# The least length of a text from which lists are cut out.
SHORTEST = 2_000
# The prefix of the parameters' names. If a text contains it already, no lists are cut out.
PARAMETER = "icefloe_literals_"

_TEXT = "'[^']*+(?:''[^']*+)*+'"
_SPACE = "[ \t\r\n]"
# The forms of literals, as regular expressions. All literals of a list have the same form; the forms are tried in this order.
_FORMS = {
    "text": _TEXT,
    "number": r"-?+[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+(?![\w.])",
    "date": f"(?i:DATE){_SPACE}++{_TEXT}",
    "timestamp": f"(?i:TIMESTAMP){_SPACE}++{_TEXT}",
    "hex": "[xX]'[0-9a-fA-F]*+'",
}
_ANY_LIST = "|".join(f"(?P<{name}>{form}(?:{_SPACE}*+,{_SPACE}*+{form})++)" for name, form in _FORMS.items())
# Parts of the text outside of lists: quoted texts and names are skipped. If the text has comments or other kinds of quotes, nothing is cut out.
_OTHERS = f'{_TEXT}|"[^"\'`]*+"|`[^`\'"]*+`|(?P<other>[\'"`#$\\\\{{]|--|/\\*)'
_PARTS = re.compile(rf"(?<![\w.])(?i:IN){_SPACE}*+\({_SPACE}*+(?:{_ANY_LIST}){_SPACE}*+\)|{_OTHERS}")
_INSIDE_QUOTES = re.compile("'([^']*+(?:''[^']*+)*+)'")
_NOT_WHOLE = re.compile("[.eE]")
_LITERALS = {name: re.compile(form) for name, form in _FORMS.items()}


@dataclass(frozen=True, slots=True)
class FilterText:
    """The text of a filter, and the lists that were cut out of it.

    Attributes:
        text: The text, with `IN (:name)` in the place of each list.
        lists: The Python values of the lists, by the names of the parameters.
    """

    text: str
    lists: Mapping[str, tuple[Any, ...]]

    def restore_message(self, message: str) -> str:
        """Return an error message with `...` instead of the parameters, which the user did not write."""
        return re.sub(f":{PARAMETER}[0-9]+", "...", message)


def without_lists(text: str, number: Callable[[str], Any], timestamp: Callable[[str], Any]) -> FilterText:
    """Cut IN lists that have only numbers, texts, dates, timestamps or bytes out of the text of a filter.

    Args:
        text: The filter as the user wrote it.
        number: Returns the value of a number without its sign.
        timestamp: Returns the value of a timestamp's text.
    """
    if len(text) < SHORTEST or PARAMETER in text.lower():
        return FilterText(text, {})
    convert: Mapping[str, Callable[[str], Any]] = {
        "number": lambda literal: _signed_number(literal, number),
        "date": lambda literal: date.fromisoformat(_quoted_part(literal)),
        "timestamp": lambda literal: timestamp(_quoted_part(literal)),
        "hex": lambda literal: bytes.fromhex(_quoted_part(literal)),
    }
    pieces: list[str] = []
    lists: dict[str, tuple[Any, ...]] = {}
    end = 0
    for match in _PARTS.finditer(text):
        form = match.lastgroup
        if form == "other":
            return FilterText(text, {})
        if form is None:
            continue
        try:
            values = _quick_values(form, match[form]) or tuple(map(convert[form], _LITERALS[form].findall(match[form])))
        except (ValueError, ArithmeticError):  # sqlglot reports what is wrong with it
            continue
        name = f"{PARAMETER}{len(lists)}"
        lists[name] = values
        pieces += [text[end : match.start(form)], ":", name]
        end = match.end(form)
    return FilterText("".join([*pieces, text[end:]]), lists)


def _quick_values(form: str, literals: str) -> tuple[Any, ...] | None:
    """Return the values of a list that has only texts or only integers, without a Python call for each value; None for any other list."""
    if form == "text":
        texts = _INSIDE_QUOTES.findall(literals)
        return tuple(text.replace("''", "'") for text in texts) if "''" in literals else tuple(texts)
    if form == "number" and not _NOT_WHOLE.search(literals):
        return tuple(map(int, _LITERALS[form].findall(literals)))
    return None


def _unquote(literal: str) -> str:
    return literal[1:-1].replace("''", "'")


def _quoted_part(literal: str) -> str:
    return _unquote(literal[literal.index("'") :])


def _signed_number(literal: str, number: Callable[[str], Any]) -> Any:
    if not literal.startswith("-"):
        return number(literal)
    value = number(literal[1:])
    return value.copy_negate() if isinstance(value, Decimal) else -value
