"""docs/configuration.md is what the code declares, and the declarations name everything that the code reads."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from tests.java_names import (
    CATALOG_PROPERTIES,
    READ_OPTIONS,
    SERVICE_PROPERTIES,
    SESSION_SETTINGS,
    TABLE_DEFAULTS,
    TABLE_PROPERTIES,
    WRITE_OPTIONS,
)

from icefloe.catalog.options import CATALOG_OPTIONS, ENVIRONMENT
from icefloe.catalog.unused_options import UNUSED_CATALOG_PROPERTIES
from icefloe.io import object_store_options
from icefloe.io.storage_options import STORAGE_OPTIONS
from icefloe.spark.connect import connect_options as data_source
from icefloe.spark.scan import read_options, stream_options
from icefloe.spark.scan.read_options import SESSION_PREFIX, UNUSED_READ_OPTIONS, UNUSED_SETTINGS
from icefloe.spark.write import write_options
from icefloe.spec.limits import PREFIX
from icefloe.spec.metadata import maintenance_properties, table_properties
from icefloe.spec.metadata.unused_properties import UNUSED_PREFIXES, UNUSED_PROPERTIES
from icefloe.spec.ports import VENDED_GOOGLE_TOKEN
from icefloe.spec.view import view_properties

ROOT = Path(__file__).parents[2]


def names(options: object) -> set[str]:
    return {option.name for option in options}  # type: ignore[attr-defined]


def test_the_page_is_what_the_code_declares() -> None:
    spec = spec_from_file_location("configuration_reference", ROOT / "scripts" / "configuration_reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == reference.page(), f"run {reference.COMMAND}"


def test_the_page_names_everything_that_has_no_effect() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    unused = [
        *UNUSED_PROPERTIES,
        *UNUSED_PREFIXES,
        *UNUSED_CATALOG_PROPERTIES,
        *UNUSED_READ_OPTIONS,
        *write_options.REFUSED_OPTIONS,
        *write_options.UNUSED_WRITE_OPTIONS,
    ]
    settings = [SESSION_PREFIX + name for name in UNUSED_SETTINGS]
    assert [name for name in (*unused, *settings) if f"`{name}`" not in page] == []


def test_every_property_has_a_meaning() -> None:
    known = (*table_properties.ALL, *view_properties.ALL)
    assert [one.name for one in known if not re.fullmatch(r"[A-Z`].+\.", one.meaning)] == []
    assert len(names(table_properties.ALL)) == len(table_properties.ALL)


def test_table_properties_are_those_of_java() -> None:
    assert names(table_properties.ALL) - maintenance_properties.NAMES - set(TABLE_PROPERTIES) == set()


def test_defaults_are_those_of_java_or_name_javas() -> None:
    shown = {
        declared.name: declared.java_default if declared.java_default is not None else as_text(declared.default)
        for declared in table_properties.ALL
    }
    assert {name: text for name, text in TABLE_DEFAULTS.items() if shown[name] != text} == {}
    repeated = [
        declared.name
        for declared in table_properties.ALL
        if declared.java_default is not None and declared.java_default == as_text(declared.default)
    ]
    assert repeated == []


def as_text(default: object) -> str:
    return "" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def test_every_option_of_a_read_that_has_an_effect_is_listed() -> None:
    assert names(read_options.READ_OPTIONS) == set(read_options.ACTED_ON_OPTIONS)
    assert names(stream_options.STREAM_OPTIONS) == set(read_options.STREAM_OPTION_NAMES)
    assert {one.name for one in (*read_options.READ_OPTIONS, *stream_options.STREAM_OPTIONS) if one.java} <= set(READ_OPTIONS)


def test_every_option_of_a_write_that_has_an_effect_is_listed() -> None:
    known = (
        {*write_options.KNOWN_OPTIONS, write_options.SNAPSHOT_PROPERTY}
        - write_options.REFUSED_OPTIONS.keys()
        - write_options.UNUSED_WRITE_OPTIONS.keys()
    )
    assert {name.lower() for name in names(write_options.WRITE_OPTIONS)} == known - {"snapshot-id", "as-of-timestamp", "tag"}
    assert {one.name.rstrip(".") for one in write_options.WRITE_OPTIONS if one.java} <= set(WRITE_OPTIONS)


def test_every_setting_of_a_session_that_has_an_effect_is_listed() -> None:
    acted_on = {SESSION_PREFIX + name for name in (*read_options.ACTED_ON_SETTINGS, *write_options.SETTINGS)}
    listed = (*read_options.READ_SETTINGS, *write_options.WRITE_SETTINGS)
    assert names(listed) - {"spark.wap.id", "spark.wap.branch", read_options.PLANNING_SETTING} == acted_on
    assert {one.name for one in listed if one.java} <= set(SESSION_SETTINGS)


def test_every_option_of_the_data_source_is_listed() -> None:
    set_by_icefloe = {data_source.STORAGE, data_source.READ_ID}
    own = {*data_source.OPTION_NAMES, data_source.SNAPSHOT_PROPERTY} - set_by_icefloe
    assert names(data_source.DATA_SOURCE_OPTIONS) == own


def test_every_storage_property_is_listed() -> None:
    known = {name for protocol in object_store_options._OPTIONS for name in object_store_options.property_names(protocol)}
    assert names(STORAGE_OPTIONS) == known - {VENDED_GOOGLE_TOKEN}, "the catalog's store sets it, not the user"


def test_every_catalog_property_that_the_code_reads_is_listed() -> None:
    read = re.compile(r"""(?:properties\.get\(|is_true\((?:self\.)?properties, )"([\w.-]+)\"""")
    found = {name for path in (ROOT / "src/icefloe/catalog").rglob("*.py") for name in read.findall(path.read_text(encoding="utf-8"))}
    assert len(found) > 3
    assert found - names(CATALOG_OPTIONS) == set()
    of_java = {*CATALOG_PROPERTIES, *SERVICE_PROPERTIES, "type", "default-namespace"}
    assert {one.name for one in CATALOG_OPTIONS if one.java} <= of_java


def test_every_environment_variable_that_the_code_reads_is_listed() -> None:
    read = re.compile(r"""environ(?:\.get\(|\.setdefault\(|\[)"(\w+)\"""")
    found = {name for path in (ROOT / "src/icefloe").rglob("*.py") for name in read.findall(path.read_text(encoding="utf-8"))}
    assert len(found) > 5
    assert found - names(ENVIRONMENT) == set()
    assert all(not name.startswith(PREFIX) for name in names(ENVIRONMENT))
