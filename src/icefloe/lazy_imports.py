"""Imports that happen at first use, so that a process pays only for the packages that it works with.

`import icefloe` loads no Arrow, no SQLAlchemy and no SQL parser. There are two mechanisms: a public package exports its names through `lazy_exports`, which
reads them from the imports under `if TYPE_CHECKING` that mypy, editors and import-linter read; and a module that only some calls need is a `lazy_module`. The
latter takes the module's name as text, so that its import is repeated under `if TYPE_CHECKING`, and tests/architecture/test_lazy_imports.py compares the two.
The imports of a package are read from its compiled code, because Pyodide, PyInstaller and archives of `.pyc` files have no source.
"""

import builtins
import dis
import sys
from collections.abc import Callable, Collection
from functools import cache
from importlib import import_module
from types import CodeType
from typing import Any


def lazy_exports(package: str, *, unlisted: Collection[str] = ()) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package that imports its exported names at first use (PEP 562).

    The names are those that the package, whose code calls this function, imports under `if TYPE_CHECKING`.

    Args:
        package: The `__name__` of the package.
        unlisted: Names that `dir` leaves out until they are imported. `help` and `inspect.getmembers` read every name that is listed, so that one whose
            import fails without an extra would end them.

    Returns:
        The two functions.
    """
    code = sys._getframe(1).f_code

    def import_name(name: str) -> Any:
        places = _places_of_exports(code)
        if name == "__all__":  # for `from package import *`: no part of the package, and no name that Python has itself, as `open`
            return sorted(export for export, (module, _) in places.items() if module != package and not hasattr(builtins, export))
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = places[name]
        value = import_module(f"{package}.{attribute}") if module == package else getattr(import_module(module), attribute)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *(_places_of_exports(code).keys() - set(unlisted))})

    return import_name, list_names


@cache
def _places_of_exports(code: CodeType) -> dict[str, tuple[str, str]]:
    """Return the module and the attribute of each name that the code of a package imports under `if TYPE_CHECKING`."""
    places = {}
    module = attribute = ""
    tested, branch_end = False, 0
    for instruction in dis.get_instructions(code):
        if instruction.argval == "TYPE_CHECKING" and instruction.opname == "LOAD_NAME":
            tested = True
        elif tested and "JUMP" in instruction.opname:
            tested, branch_end = False, instruction.argval
        elif instruction.offset < branch_end:
            if instruction.opname == "IMPORT_NAME":
                module = instruction.argval
            elif instruction.opname == "IMPORT_FROM":
                attribute = instruction.argval
            elif instruction.opname == "STORE_NAME":
                places[instruction.argval] = module, attribute
    return places


class _LazyModule:
    """A proxy of a module that imports it when one of its attributes is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        # Spark pickles a function that is defined in another one together with the modules that it names.
        return lazy_module, (self._name,)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


def lazy_module(name: str) -> Any:
    """Return a proxy of a module, which is imported when one of its attributes is first read.

    Args:
        name: The full name of the module.
    """
    return _LazyModule(name)
