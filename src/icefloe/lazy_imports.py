"""Imports at first use, so that a process loads only the packages that it uses.

`import icefloe` loads no Arrow, no SQLAlchemy and no SQL parser. There are two mechanisms: a public package exports its names through `lazy_exports`, and a
module that only some calls need is a `lazy_module`. Both take the names of modules as text, which import-linter cannot read. The same imports are therefore
repeated under `if TYPE_CHECKING` for import-linter and mypy, and tests/architecture/test_lazy_imports.py compares the two.
"""

import builtins
import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, imports: Mapping[str, str], *, unlisted: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package that imports its exported names at first use (PEP 562).

    Args:
        package: The `__name__` of the package.
        imports: The imported names by module, written as in an import statement: `"name, other as alias"`. An empty text exports the module itself, which
            must be a part of the package.
        unlisted: Names that `dir` leaves out until they are imported. `help` and `inspect.getmembers` read every listed name, and would fail at a name
            whose import needs an extra that is not installed.

    Returns:
        The two functions.
    """
    places: dict[str, tuple[str, str]] = {}
    for module, names in imports.items():
        for clause in filter(None, names.split(", ")):
            name, _, alias = clause.partition(" as ")
            places[alias or name] = (module, name)
        if not names:
            places[module.rpartition(".")[2]] = (module, "")

    def import_name(name: str) -> Any:
        if name == "__all__":  # for `from package import *`: without the package's modules and names of builtins, such as `open`
            return sorted(export for export, (_, attribute) in places.items() if attribute and not hasattr(builtins, export))
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = places[name]
        value = import_module(module)
        if attribute:
            value = getattr(value, attribute)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *(places.keys() - set(unlisted))})

    return import_name, list_names


class _LazyModule:
    """A proxy of a module that imports it when one of its attributes is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        # Spark pickles a nested function together with the modules that it refers to.
        return lazy_module, (self._name,)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


def lazy_module(name: str) -> Any:
    """Return a proxy of a module, which imports the module when one of its attributes is first read.

    Args:
        name: The full name of the module.
    """
    return _LazyModule(name)
