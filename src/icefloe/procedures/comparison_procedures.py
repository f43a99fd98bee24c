"""The procedure that compares two versions of a table, or two tables."""

from icefloe.catalog.catalog import Catalog
from icefloe.comparison.table_comparison import compare, compared_versions, comparison_lines
from icefloe.kernel.types import StringType
from icefloe.procedures.procedure import Rows, Text, procedure


@procedure(
    ("section", StringType()),
    ("change", StringType()),
    ("name", StringType()),
    ("before", StringType()),
    ("after", StringType()),
    optional=("before", "after"),
)
def diff(
    catalog: Catalog,
    table: Text,
    from_version: Text | None = None,
    to_version: Text | None = None,
    other_table: Text | None = None,
) -> Rows:
    """Compare two snapshots, branches or tags of a table, or two tables, by their metadata; a row for each difference."""
    other = None if other_table is None else catalog.load_table(other_table)
    before, after, is_one_table = compared_versions(catalog.load_table(table), other, from_version, to_version)
    found = compare(before, after, is_one_table=is_one_table)
    return [(section, one.change, one.name, one.before, one.after) for section, one in comparison_lines(found)]
