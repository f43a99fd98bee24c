"""`in_sql`: the next step of an error as SQL. The packages below Spark serve Python too, so their next steps name Python methods."""

import re

# A call that a next step may name, and the SQL statement for it. Longer calls come first.
_STATEMENTS = (
    (r"(?:table\.)?update_schema\(\)\.rename_column(?:\(\(.*?\), ?\.\.\.\)|\(.*?\))", "ALTER TABLE ... RENAME COLUMN"),
    (r"(?:table\.)?update_schema\(\)\.make_column_optional(?:\(.*?\))?", "ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL"),
    (r"(?:table\.)?update_schema\(\)\.set_identifier_fields\(.*?\)", "ALTER TABLE ... SET IDENTIFIER FIELDS ..."),
    (r"(?:table\.)?update_spec\(\)\.remove_field\('(?P<field>.*?)'\)", r"ALTER TABLE ... DROP PARTITION FIELD \g<field>"),
    (r"(?:table\.)?update_sort_order\(\)", "ALTER TABLE ... WRITE ORDERED BY ..."),
    (
        r"(?:table\.)?set_properties\(\{['\"](?P<key>[^'\"]*)['\"]: ['\"](?P<value>[^'\"]*)['\"]\}\)",
        r"ALTER TABLE ... SET TBLPROPERTIES ('\g<key>' = '\g<value>')",
    ),
    (r"(?:table\.)?upgrade_table_version\((?P<version>\d+)\)", r"ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '\g<version>')"),
    (r"(?:table\.)?manage_snapshots\(\)\.create_branch\(.*?\)", "ALTER TABLE ... CREATE BRANCH ..."),
    (r"(?:table\.)?snapshots\(\)", "the table .snapshots"),
    (r"(?:table\.)?ancestors\(\)", "CALL ... system.ancestors_of"),
    (r"cherry_pick\(.*?\)", "CALL ... system.cherrypick_snapshot"),
    (r"(?:catalog\.)?register_table\(.*?\)", "CALL ... system.register_table"),
    (r"(?:table\.)?delete\(.*?\)", "DELETE FROM ... WHERE ..."),
    (r"(?:table\.)?overwrite\(.*?\)", "INSERT OVERWRITE ..."),
    (r"create_namespace\('(?P<name>.*?)'\)", r"CREATE NAMESPACE \g<name>"),
    (r"drop_table\('(?P<name>.*?)'\)", r"DROP TABLE \g<name>"),
    (r"with load_(?P<kind>table|view)\b", r"by its name: it is a \g<kind>"),
    (r"load_table\('(?P<name>.*?)'\) opens it", r"DESCRIBE TABLE \g<name> shows it"),
    (r"then register_table with this metadata file", "then CALL ... system.register_table with this metadata file"),
    (r"rename_field\b", "ALTER TABLE ... REPLACE PARTITION FIELD"),
    (r"replace_(?P<ref>branch|tag)\b", r"ALTER TABLE ... REPLACE \g<ref>"),
    (r", or pass allow_incompatible_changes=True(?P<why>[^;]*)", r""),
    (r"expire with delete_files=False, which changes only the metadata; or set", "set"),
    (r", such as datetime\.timezone\.utc", ": TIMESTAMP '2026-01-31 12:00:00Z'"),
    (r", such as datetime\.now\(UTC\) - timedelta\(days=7\)", ": TIMESTAMP '2026-01-31 12:00:00Z'"),
    (r"; StaticTable\.from_metadata\('.*?'\) reads it", ""),
    (r"start_snapshot_id=(?P<id>\d+)", r"start-snapshot-id \g<id>"),
    (r"refresh the table if", "REFRESH TABLE ... if"),
)
_CALLS = tuple((re.compile(call), statement) for call, statement in _STATEMENTS)


def in_sql(next_step: str) -> str:
    """Return the next step with each Python call replaced by the SQL statement for it."""
    for call, statement in _CALLS:
        next_step = call.sub(statement, next_step)
    return next_step
