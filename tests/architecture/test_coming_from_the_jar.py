"""docs/coming-from-the-jar.md is what the code declares, and names every setting and procedure of Java Iceberg for Spark."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from tests.java_names import CATALOG_PROPERTIES, READ_OPTIONS, SESSION_SETTINGS, TABLE_PROPERTIES, WRITE_OPTIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "coming-from-the-jar.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = spec_from_file_location("coming_from_the_jar", ROOT / "scripts" / "coming_from_the_jar.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_configuration_reference_and_the_procedures_define(generator: ModuleType) -> None:
    assert generator.page() == PAGE, "run .venv/bin/python scripts/coming_from_the_jar.py"


@pytest.mark.parametrize("kind", ["CATALOG_PROPERTIES", "TABLE_PROPERTIES", "READ_OPTIONS", "WRITE_OPTIONS", "SESSION_SETTINGS"])
def test_the_page_names_every_setting_of_java(kind: str) -> None:
    names = {
        "CATALOG_PROPERTIES": CATALOG_PROPERTIES,
        "TABLE_PROPERTIES": TABLE_PROPERTIES,
        "READ_OPTIONS": READ_OPTIONS,
        "WRITE_OPTIONS": WRITE_OPTIONS,
        "SESSION_SETTINGS": SESSION_SETTINGS,
    }[kind]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_page_names_every_procedure_of_java(generator: ModuleType) -> None:
    assert [name for name in generator.JAVA_PROCEDURES if f"`{name}`" not in PAGE] == []
