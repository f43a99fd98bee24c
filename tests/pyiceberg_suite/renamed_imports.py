"""A pytest plugin under which `import pyiceberg.x` imports `icefloe.x`, and nothing else of PyIceberg's tests is changed.

A name that Icefloe lacks is a `MissingName`: it can be imported, and used while tests are collected, so that the other tests of its file run. The test that
uses it fails.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

from built_by_hand import NAMES

# Services whose tests are left out; PyIceberg's `conftest.py` imports their modules.
SERVICES = ("boto3", "botocore", "moto", "hive_metastore", "thrift", "google.cloud", "papermill", "nbformat", "strictyaml")


class State:
    """What the plugin keeps during the run."""

    running = False


class MissingNameError(AttributeError):
    """A test uses a name that Icefloe does not have."""


class MissingName:
    """A name that Icefloe does not have. While tests run, every use of it raises `MissingNameError`."""

    def __init__(self, name: str) -> None:
        self.__dict__["name"] = name

    def used(self) -> "MissingName":
        if State.running:
            raise MissingNameError(f"Icefloe has no {self.__dict__['name']}")
        return self

    def __call__(self, *_args: Any, **_named: Any) -> "MissingName":
        return self.used()

    def __getattr__(self, name: str) -> "MissingName":
        if name.startswith("__") or name in ("_pytestfixturefunction", "pytestmark"):
            raise AttributeError(name)
        self.used()
        return MissingName(f"{self.__dict__['name']}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        self.used()

    def __getitem__(self, _key: Any) -> "MissingName":
        return self.used()

    def __mro_entries__(self, _bases: Any) -> tuple[type, ...]:
        name = self.__dict__["name"]

        class SubclassOfMissing:
            def __new__(cls, *_args: Any, **_named: Any) -> Any:
                raise MissingNameError(f"Icefloe has no {name}")

        return (SubclassOfMissing,)

    def __bytes__(self) -> bytes:
        self.used()
        return b""

    def __subclasses__(self) -> list[type]:
        self.used()
        return []

    def __or__(self, _other: Any) -> "MissingName":
        return self.used()

    __ror__ = __or__

    def __iter__(self) -> Any:
        self.used()
        return iter(())

    def __bool__(self) -> bool:
        self.used()
        return True

    def __eq__(self, other: object) -> bool:
        self.used()
        return self is other

    def __hash__(self) -> int:
        return hash(self.__dict__["name"])

    def __repr__(self) -> str:
        return f"<no {self.__dict__['name']}>"


class RenamedModule(ModuleType):
    """A module of PyIceberg by name, of Icefloe by content."""

    def __init__(self, name: str, real: ModuleType | None) -> None:
        super().__init__(name)
        self.__dict__["_real"] = real
        self.__dict__["__path__"] = []

    def __getattr__(self, name: str) -> Any:
        real = self.__dict__["_real"]
        if (by_hand := NAMES.get(f"{_renamed(self.__name__)}.{name}")) is not None:
            return by_hand
        if name.startswith("__"):
            if real is not None and hasattr(real, name):
                return getattr(real, name)
            raise AttributeError(name)
        if real is not None and hasattr(real, name):
            return getattr(real, name)
        renamed = f"{_renamed(self.__name__)}.{name}"
        with contextlib.suppress(ImportError):
            if importlib.util.find_spec(renamed):
                return importlib.import_module(f"{self.__name__}.{name}")
        return MissingName(renamed)

    def __setattr__(self, name: str, value: Any) -> None:
        real = self.__dict__["_real"]
        if real is not None and not name.startswith("__") and not isinstance(value, RenamedModule):
            setattr(real, name, value)
        else:
            self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        real = self.__dict__["_real"]
        if real is not None and hasattr(real, name):
            delattr(real, name)


def _renamed(name: str) -> str:
    return "icefloe" + name.removeprefix("pyiceberg")


class Renamer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `pyiceberg` and the modules of services that are left out."""

    def find_spec(self, fullname: str, _path: Any, _target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] == "pyiceberg" or any(fullname == name or fullname.startswith(f"{name}.") for name in SERVICES):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        name, real = _renamed(spec.name), None
        if spec.name == "pyiceberg.utils.config":
            return _configuration()
        if spec.name.partition(".")[0] == "pyiceberg":
            try:
                real = importlib.import_module(name)
            except ModuleNotFoundError as error:
                if error.name is None or not name.startswith(error.name):
                    raise
        return RenamedModule(spec.name, real)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the content is the renamed module's."""


def _configuration() -> ModuleType:
    """Return a module in place of PyIceberg's configuration, which a fixture for every test patches so that none is read."""
    module = ModuleType("pyiceberg.utils.config")
    module.__dict__["Config"] = type("Config", (), {"_from_configuration_files": None})
    return module


sys.meta_path.insert(0, Renamer())


def pytest_runtest_setup(item: Any) -> None:
    State.running = True


def pytest_runtest_teardown(item: Any) -> None:
    State.running = False
