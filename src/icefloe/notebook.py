"""`ShownInNotebooks`: the display of a value of the format in a notebook, by a module that only a notebook imports."""

from icefloe.lazy_imports import lazy_module

reports = lazy_module("icefloe.display.reports_of_values")


class ShownInNotebooks:
    """A value that notebooks display as HTML. The package `display`, above the values, decides how."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(reports.html_of_value(self))
