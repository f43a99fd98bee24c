"""`Property`: a property of a table or view, stored as text; and functions that define properties with numbers, flags, choices or locations as values.

`table_properties.py` has the properties of tables, `spec/view/view_properties.py` those of views. Spec: Table Metadata Fields (`properties`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from icefloe.errors import InvalidPropertyError, MetadataFormatError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Property(Generic[T]):
    """A property of a table or view.

    Attributes:
        name: Name of the property.
        default: Value if the property is not set.
        parse: Returns the value of a text; raises ValueError or `MetadataFormatError` if the text is invalid.
        allowed: The allowed values in words.
        meaning: Effect of the property, for the configuration reference.
        java_default: Java's default as text, if it is different; for the configuration reference.
    """

    name: str
    default: T
    parse: Callable[[str], T]
    allowed: str
    meaning: str
    java_default: str | None = None

    def read(self, properties: Mapping[str, str]) -> T:
        """Return the value in `properties`, or the default if it is not set.

        Raises:
            InvalidPropertyError: the text is not a value of this property; the error contains both.
        """
        text = properties.get(self.name)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except (ValueError, MetadataFormatError) as error:
            raise InvalidPropertyError(
                f"the property {self.name} is {text!r}, which is not {self.allowed}",
                problems=error.problems if isinstance(error, MetadataFormatError) else (),
                next_step=f"set {self.name} to {self.allowed}",
            ) from error

    def of_column(self, column: str) -> "Property[T]":
        """Return the property for one column. The name of this property must be a prefix, to which the column's name is added."""
        return replace(self, name=self.name + column)


# The form of whole numbers. Python's int() would also accept `1_000` and blanks.
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)


def number(name: str, default: int, smallest: int, unit: str, meaning: str) -> Property[int]:
    """Return a property whose values are whole numbers.

    Args:
        name: Name of the property.
        default: Value where it is not set.
        smallest: The smallest allowed value.
        unit: What the number counts, in the plural.
        meaning: Effect of the property.
    """
    return Property(name, default, at_least(smallest), f"a whole number ({unit}) of at least {smallest}", meaning)


def at_least(smallest: int) -> Callable[[str], int]:
    """Return the parser of whole numbers from `smallest` on."""

    def parse(text: str) -> int:
        if _WHOLE_NUMBER.fullmatch(text) is None or int(text) < smallest:
            raise ValueError(text)
        return int(text)

    return parse


def flag(name: str, meaning: str, *, default: bool, java_default: str | None = None) -> Property[bool]:
    """Return a property that is true or false. Arguments are attributes of `Property`."""
    return Property(name, default, true_or_false, "true or false", meaning, java_default)


def true_or_false(text: str) -> bool:
    """Parse true or false, in any letter case. Raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def choice(name: str, default: str, *choices: str, meaning: str, java_default: str | None = None) -> Property[str]:
    """Return a property with one of several values, in lower case.

    Args:
        name: Name of the property.
        default: Value where it is not set.
        *choices: The allowed values.
        meaning: Effect of the property.
        java_default: Java's default, where it is another one.
    """

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return Property(name, default, parse, f"one of {', '.join(choices)}", meaning, java_default)


def optional(name: str, like: Property[str], meaning: str) -> Property[str | None]:
    """Return a property that accepts the values of the property `like`, and is None if it is not set."""
    return Property(name, None, like.parse, like.allowed, meaning)


def location(name: str, meaning: str) -> Property[str | None]:
    """Return a property whose value is a folder; a slash at its end is dropped. None if it is not set."""

    def parse(text: str) -> str:
        if not text.strip("/"):
            raise ValueError(text)
        return text.rstrip("/")

    return Property(name, None, parse, "a location", meaning)


def property_texts(properties: Mapping[str, object], what: str = "table") -> dict[str, str]:
    """Return the properties with text values: numbers in decimal form, booleans as `true` or `false`.

    Args:
        properties: Names and values as the caller passed them.
        what: Owner of the properties, for messages.

    Raises:
        InvalidPropertyError: a name is not a string, or a value is not a string, number or boolean; None is refused too.
    """
    for name, value in properties.items():
        if not isinstance(name, str):
            raise InvalidPropertyError(
                f"{name!r} cannot be the name of a {what} property: names are text", next_step="pass the name as text"
            )
        if not isinstance(value, str | int | float):
            raise InvalidPropertyError(
                f"the {what} property {name} cannot be {value!r}: properties are text",
                next_step="leave it out, or pass text" if value is None else "pass text",
            )
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in properties.items()}
