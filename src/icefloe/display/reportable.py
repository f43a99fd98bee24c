"""`Reportable`: the base of every value that can display itself as JSON, as text, in a terminal and in a notebook."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from icefloe.display.figures.figure import Figure
from icefloe.display.html import html_of
from icefloe.display.report import Report
from icefloe.errors import in_one_line, visible
from icefloe.formatting import short_text
from icefloe.lazy_imports import lazy_module

if TYPE_CHECKING:  # the drawing library is imported only when a value is printed
    from icefloe.display import terminal
else:
    terminal = lazy_module("icefloe.display.terminal")

# The most lines of one list; the rest is only counted, so that the report of a table with 100,000 files is readable.
MOST_LINES = 20
# The fields that can have the name of what a value is about; each value has one of them.
_NAME_FIELDS = ("table", "name", "catalog")


class Reportable:
    """A frozen value with a report. `print(value)` shows text, its `repr` is one line, a notebook shows HTML, and `to_dict()` returns everything."""

    __slots__ = ()

    @abstractmethod
    def report(self, most: int | None = MOST_LINES) -> Report:
        """Return the report that is displayed.

        Args:
            most: The greatest number of lines of each list; None for all. The report has the number of lines that are left out.
        """

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of the report. A notebook shows a figure as SVG, or by its Vega-Lite specification."""
        return tuple(part for part in self.report().parts if isinstance(part, Figure))

    @property
    def has_faults(self) -> bool:
        """Whether the value shows that something is wrong with the table. If so, the exit code of the command that shows it is 1."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return every field, ready for JSON. Nothing is shortened."""
        fields: dict[str, Any] = json_ready(self)
        return fields

    def to_json(self) -> str:
        """Return `to_dict()` as indented JSON text."""
        return visible(json.dumps(self.to_dict(), indent=2, ensure_ascii=False))

    def __str__(self) -> str:
        return terminal.text_of(self.report())

    def __repr__(self) -> str:
        name = next(getattr(self, field) for field in _NAME_FIELDS if hasattr(self, field))
        return in_one_line(f"{type(self).__name__}({short_text(name)}; print() shows it)")

    def __rich__(self) -> Any:
        return terminal.renderable_of(self.report())

    def _repr_html_(self) -> str:
        return html_of(self.report())


class OperationResult(Reportable):
    """The result of an operation, or of its dry run. At a Python prompt the whole report is shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def json_ready(value: Any) -> Any:
    """Convert a value to dicts, lists, text, numbers, booleans and None. Keys that begin with an underscore are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_ready(getattr(value, field.name)) for field in fields(value) if not field.name.startswith("_")}
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Sequence):
        return [json_ready(item) for item in value]
    return str(value)
