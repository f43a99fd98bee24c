"""The display of values of the format in notebooks: the columns of a schema, the facts of a snapshot.

The packages of these values cannot import this package. `icefloe/__init__.py` therefore sets this module in them, and it is imported when a notebook displays a
value.
"""

from itertools import islice

from icefloe.display.html import html_of
from icefloe.display.report import Column, Facts, Grid, Report
from icefloe.formatting import MOST_SHOWN, short_text
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.schema.schema import Schema, walk

# The most columns of a displayed schema.
MOST_COLUMNS = 200


def html_of_value(value: Schema | Snapshot) -> str:
    """Return a value as HTML.

    Args:
        value: The schema or snapshot to display.
    """
    if isinstance(value, Schema):
        return html_of(Report("", (columns_grid(value, f"schema {value.schema_id}"),)))
    summary = tuple((short_text(name), short_text(text)) for name, text in list(value.summary.items())[:MOST_SHOWN])
    parts = (Facts(tuple(value.facts())), *([Facts(summary, "summary")] if summary else []))
    return html_of(Report(f"snapshot {value.snapshot_id}", parts))


def columns_grid(schema: Schema, title: str) -> Grid:
    """Return the columns of a schema as a grid, nested columns included.

    Args:
        schema: The schema.
        title: The text above the grid.
    """
    rows = [
        (
            str(field.field_id),
            short_text(".".join(path)),
            short_text(str(field.field_type)),
            "yes" if field.required else "no",
            short_text(field.doc or ""),
        )
        for path, field in islice(walk(schema.fields), MOST_COLUMNS)
    ]
    names = (Column("id", is_number=True), Column("name"), Column("type"), Column("required"), Column("doc"))
    return Grid(title, names, tuple(rows), len(schema.field_ids) - len(rows))
