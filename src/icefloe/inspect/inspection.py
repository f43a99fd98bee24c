"""`View`: what every value of this room can do besides hold its fields: become JSON, be printed, be drawn in a terminal or a notebook."""

import json
from abc import abstractmethod
from typing import Any

from icefloe.errors import visible
from icefloe.inspect.as_json import json_ready
from icefloe.inspect.html import html_of
from icefloe.inspect.report import Report
from icefloe.inspect.terminal import renderable_of, text_of

# Lines of one list before the rest is only counted, so that a table of 100,000 files stays readable.
MOST_LINES = 20


class View:
    """A frozen value with a report. `print(view)` gives text; a notebook shows HTML; `to_dict()` gives everything."""

    __slots__ = ()

    @abstractmethod
    def report(self, most: int | None = MOST_LINES) -> Report:
        """What is shown: at most `most` lines of each list (None for all), and the number of those left out."""

    def to_dict(self) -> dict[str, Any]:
        """Every field, JSON-ready; nothing is left out for length."""
        found: dict[str, Any] = json_ready(self)
        return found

    def to_json(self) -> str:
        """`to_dict` as indented JSON text."""
        return visible(json.dumps(self.to_dict(), indent=2, ensure_ascii=False))

    def __str__(self) -> str:
        return text_of(self.report())

    def __rich__(self) -> Any:
        return renderable_of(self.report())

    def _repr_html_(self) -> str:
        return html_of(self.report())
