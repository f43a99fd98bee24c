#!/usr/bin/env python3
"""Write docs/coming-from-the-jar.md: Java Iceberg's settings of Spark one by one, from the configuration reference and the registered procedures."""

import re
from pathlib import Path

from icefloe.procedures import procedure_names
from icefloe.spark.catalog.changelog_table import session_procedures

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "coming-from-the-jar.md"
# Every procedure of Java Iceberg's Spark extensions. Those that Icefloe does not have are found by comparison.
JAVA_PROCEDURES = (
    *("rollback_to_snapshot", "rollback_to_timestamp", "set_current_snapshot", "cherrypick_snapshot", "publish_changes", "fast_forward"),
    *("expire_snapshots", "remove_orphan_files", "rewrite_data_files", "rewrite_manifests", "rewrite_position_delete_files"),
    *("snapshot", "migrate", "add_files", "register_table", "ancestors_of", "create_changelog_view"),
    *("compute_table_stats", "compute_partition_stats", "rewrite_table_path"),
)
# ruff: noqa: E501  lines of tables
HEAD = """# Coming from the JAR

After this page you know, for each setting of Java Iceberg in Spark, what it is here. SQL, tables and their properties stay as they are: the same statements run
([SQL reference](sql.md), with the [differences](sql.md#where-javas-iceberg-does-otherwise)), and both can use one table side by side.

This page is generated from the code and the [configuration reference](configuration.md), which has meanings, values and defaults:
`.venv/bin/python scripts/coming_from_the_jar.py`.

## The session

| with the JAR | here |
|---|---|
| `spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-...` | leave it out; `pip install` Icefloe beside PySpark |
| `spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions` | leave it out; Iceberg's statements and procedures are there once a catalog is attached |
| `spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog` | the same, or `icefloe`, and `icefloe.spark.attach(spark)` in the program; not needed in `icefloe.spark.session()` |
| `spark.sql.catalog.spark_catalog=org.apache.iceberg.spark.SparkSessionCatalog` | `spark.sql.catalog.spark_catalog=icefloe`: [the session catalog](spark-sql.md#iceberg-as-the-session-catalog) |
| `spark.sql.catalog.lake.type=jdbc`, or `catalog-impl` of `JdbcCatalog` | the same |
| `spark.sql.catalog.lake.uri=jdbc:postgresql://host/db`, with `jdbc.user` and `jdbc.password` | the same, for PostgreSQL and SQLite |
| `spark.sql.catalog.lake.type=hadoop`, `glue` or `hive`, or `catalog-impl` of these | the same |
| `spark.sql.catalog.lake.type=nessie` and other services | not supported; the error names what to use instead |
| `spark.sql.catalog.lake.warehouse` | the same |
| `spark.sql.catalog.lake.io-impl=org.apache.iceberg.aws.s3.S3FileIO` | leave it out; files are reached by the scheme of their location |
| `spark.sql.catalog.lake.s3.path-style-access` and [others of S3](object-stores.md#properties) | the same |

In a Python session: `icefloe.spark.session(catalogs={"lake": SqlCatalog("lake", uri=..., warehouse=...)})`, see [Attaching catalogs](spark-sql.md).
"""
MORE = """
Spark itself passes on `path`, and `versionAsOf` and `timestampAsOf` of SQL time travel; they work as with the JAR. `snapshot-property` is a prefix: `snapshot-property.KEY`.
The names that Java reserves for what a table reports (`uuid`, `snapshot-count`, `current-snapshot-id`, `current-snapshot-summary`, `current-snapshot-timestamp-ms`, `current-schema`,
`default-partition-spec`, `default-sort-order`) are in its metadata; `comment` is the comment of `CREATE TABLE`.
"""
# Title here, heading of the configuration reference, kind of its table.
SECTIONS = (
    ("Catalog properties", "Catalog properties", "same"),
    ("Catalog properties", "Catalog properties without effect", "none"),
    ("Table properties", "Table properties", "same"),
    ("Table properties", "Table properties without effect", "none"),
    ("Read options", "Read options", "same"),
    ("Read options", "Options of streams", "same"),
    ("Read options", "Read options without effect", "none"),
    ("Write options", "Write options", "same"),
    ("Write options", "Write options that are refused", "refused"),
    ("Write options", "Write options without effect", "none"),
    ("Settings of the session", "Settings of the Spark session", "same"),
    ("Settings of the session", "Settings without effect", "none"),
)
SENTENCES = {
    "none": "Accepted without effect, with a warning where it is set:",
    "refused": "Refused, because a setting that is ignored in silence would change results:",
}


def page() -> str:
    """Return the text of the page."""
    reference = (DOCS / "configuration.md").read_text()
    parts, shown = [HEAD], ""
    for title, heading, kind in SECTIONS:
        if title != shown:
            parts.append(f"\n## {title}\n")
            shown = title
        parts.append(_section(_rows(reference, heading), kind))
    parts.append(MORE)
    parts.append("\n## Procedures\n")
    parts.append(_procedures())
    return "".join(parts)


def _rows(reference: str, heading: str) -> list[list[str]]:
    """Return the rows of the tables below a heading, with those of its subheadings unless they have a section of their own."""
    level = re.search(rf"^(#+) {re.escape(heading)}$", reference, re.MULTILINE)
    if level is None:
        raise LookupError(f"docs/configuration.md has no heading {heading!r}")
    rest = reference[level.end() :]
    own = {other for _, other, _ in SECTIONS if other != heading}
    rows, is_own = [], True
    for line in rest.splitlines():
        if match := re.match(r"(#+) (.*)", line):
            if len(match[1]) <= len(level[1]):
                break
            is_own = match[2] not in own
        elif is_own and line.startswith("| `"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def _section(rows: list[list[str]], kind: str) -> str:
    if kind == "same":
        same = [row[0] for row in rows if row[-1] != "—"]
        more = [row[0] for row in rows if row[-1] == "—"]
        text = f"\nThe same names, meanings and values, and Java's defaults unless the reference has another: {', '.join(same)}.\n"
        return text + (f"\nOnly here: {', '.join(more)}.\n" if more else "")
    lines = "".join(f"| {row[0]} | {row[-1]} |\n" for row in rows)
    return f"\n{SENTENCES[kind]}\n\n| name | {'instead' if kind == 'refused' else 'why'} |\n|---|---|\n{lines}"


def _procedures() -> str:
    in_sql = {*procedure_names(), *session_procedures(None)}
    have = [name for name in JAVA_PROCEDURES if name in in_sql]
    missing = [name for name in JAVA_PROCEDURES if name not in in_sql]
    text = "\n`CALL lake.system.NAME(...)` with Java's names, arguments and columns: " + ", ".join(f"`{name}`" for name in have)
    text += ". [What each does](sql.md#procedures)\n"
    if missing:
        text += "\nNot here yet: " + ", ".join(f"`{name}`" for name in missing) + ".\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
