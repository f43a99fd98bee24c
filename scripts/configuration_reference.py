"""Write docs/configuration.md from the declarations in the code: every property, option, setting and environment variable.

Run `.venv/bin/python scripts/configuration_reference.py`; a test compares the page with the output of this script.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from icefloe.catalog.options import CATALOG_OPTIONS, ENVIRONMENT
from icefloe.catalog.unused_options import UNUSED_CATALOG_PROPERTIES
from icefloe.io.storage_options import LOCATION_OPTIONS, MANIFEST_CACHE_OPTIONS, STORAGE_OPTIONS
from icefloe.option import Option
from icefloe.spark.connect.connect_options import DATA_SOURCE_OPTIONS
from icefloe.spark.runtime.driver_memory import STARTED_SETTINGS
from icefloe.spark.scan.read_options import READ_OPTIONS, READ_SETTINGS, SESSION_PREFIX, UNUSED_READ_OPTIONS, UNUSED_SETTINGS
from icefloe.spark.scan.stream_options import STREAM_OPTIONS
from icefloe.spark.write.write_options import REFUSED_OPTIONS, UNUSED_WRITE_OPTIONS, WRITE_OPTIONS, WRITE_SETTINGS
from icefloe.spec.limits import Limits, environment_variable
from icefloe.spec.metadata import maintenance_properties, table_properties
from icefloe.spec.metadata.unused_properties import UNUSED_PREFIXES, UNUSED_PROPERTIES
from icefloe.spec.view import view_properties
from icefloe.stores.rest.settings import REST_OPTIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
COMMAND = ".venv/bin/python scripts/configuration_reference.py"
# Sections of the table properties, by prefixes of their names.
SECTIONS = (
    ("Commits", ("commit.",)),
    ("Metadata files and metrics", ("write.metadata.", "schema.", "encryption.", "format-version")),
    ("Row-level operations", ("write.delete.", "write.update.", "write.merge.")),
    ("Data files", ("write.",)),
    ("Reads", ("read.",)),
    ("Retention", ("history.", "gc.")),
    ("Maintenance", ("maintenance.",)),
    ("Hive metastores", ("engine.hive.",)),
)


def page() -> str:
    """Return the text of the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Configuration"
    yield ""
    yield "Everything that can be set, with its meaning and default. An option of one read or write is preferred to a setting of the session, and that to a"
    yield "table property. A value that is none is refused, and names that Java's Iceberg has and Icefloe does not act on are warned of, once each."
    yield "A misspelt name is refused with the known one: see [Notebooks and the prompt](notebooks.md#misspelt-names)."
    yield ""
    yield "The names are Java's, with Java's defaults, but where the column Java has another default, or an em dash: the name is Icefloe's or PyIceberg's."
    yield ""
    yield f"This page is generated from the code: `{COMMAND}`."
    yield ""
    yield "## Table properties"
    yield ""
    yield "Given to `create_table(properties=...)`, `TBLPROPERTIES` or `table.set_properties(...)`. A name that ends in a dot is completed by a column's name."
    left = list(table_properties.ALL)
    for title, beginnings in SECTIONS:
        chosen = [known for known in left if known.name.startswith(beginnings)]
        left = [known for known in left if known not in chosen]
        yield from _property_section(f"### {title}", chosen)
    if left:
        raise ValueError(f"no section has these properties: {', '.join(known.name for known in left)}")
    yield from _unused_section("### Table properties without effect", {**UNUSED_PROPERTIES, **UNUSED_PREFIXES})
    yield from _property_section("## View properties", view_properties.ALL)
    yield from _option_section("## Catalog properties", CATALOG_OPTIONS)
    yield from _option_section("### REST catalogs", REST_OPTIONS)
    yield from _option_section("### What tables may name", LOCATION_OPTIONS)
    yield from _option_section("### Storage", STORAGE_OPTIONS)
    yield from _option_section("### Manifests in memory", MANIFEST_CACHE_OPTIONS)
    yield from _unused_section("### Catalog properties without effect", UNUSED_CATALOG_PROPERTIES)
    yield from _option_section("## Read options", READ_OPTIONS)
    yield from _option_section("### Options of streams", STREAM_OPTIONS)
    yield from _unused_section("### Read options without effect", UNUSED_READ_OPTIONS)
    yield from _option_section("## Write options", WRITE_OPTIONS)
    yield from _unused_section("### Write options that are refused", REFUSED_OPTIONS, "instead")
    yield from _unused_section("### Write options without effect", UNUSED_WRITE_OPTIONS)
    yield from _option_section("## Options of the data source", DATA_SOURCE_OPTIONS)
    yield from _option_section("## Settings of the Spark session", (*READ_SETTINGS, *WRITE_SETTINGS))
    yield from _unused_section("### Settings without effect", {SESSION_PREFIX + name: reason for name, reason in UNUSED_SETTINGS.items()})
    yield from _option_section("## Settings of a session that Icefloe starts", STARTED_SETTINGS)
    yield from _option_section("## Environment variables", ENVIRONMENT)
    yield from _option_section("### Limits of what a file may hold", _limits())


def _property_section(title: str, known: Iterable[Any]) -> Iterator[str]:
    yield from ("", title, "", "| property | meaning | values | default | Java |", "|---|---|---|---|---|")
    for one in known:
        java = "—" if one.name in maintenance_properties.NAMES else "same" if one.java_default is None else f"default `{one.java_default}`"
        yield f"| `{one.name}` | {_cell(one.meaning)} | {_cell(one.allowed)} | {_default(one.default)} | {java} |"


def _option_section(title: str, options: Iterable[Option]) -> Iterator[str]:
    yield from ("", title, "", "| name | meaning | default | Java |", "|---|---|---|---|")
    for option in options:
        yield f"| `{option.name}` | {_cell(option.meaning)} | {option.default} | {'same' if option.java else '—'} |"


def _unused_section(title: str, reasons: Mapping[str, str], heading: str = "why") -> Iterator[str]:
    yield from ("", title, "", f"| name | {heading} |", "|---|---|")
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(f"`{name}`")
    for reason, names in by_reason.items():
        yield f"| {', '.join(names)} | {_cell(reason)} |"


def _limits() -> Iterator[Option]:
    """Yield the variables of the limits, whose meanings are the comments above the fields."""
    comments = dict(re.findall(r"^    # (.*)\n(?:    # .*\n)*    (\w+): int = ", inspect.getsource(Limits), re.MULTILINE))
    meanings = {name: comment for comment, name in comments.items()}
    for field in fields(Limits):
        yield Option(environment_variable(field.name), meanings[field.name], f"`{field.default}`", java=False)


def _default(value: object) -> str:
    if value in (None, "", ()):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
