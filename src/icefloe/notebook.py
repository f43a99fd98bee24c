"""`ShownInNotebooks`: the base class of values that notebooks display as HTML."""

from typing import Any, ClassVar


class ShownInNotebooks:
    """A value that notebooks display as HTML. `icefloe/__init__.py` sets `reports` to the module that makes the HTML, which values cannot import."""

    __slots__ = ()
    reports: ClassVar[Any]

    def _repr_html_(self) -> str:
        return str(self.reports.html_of_value(self))
