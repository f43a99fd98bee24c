"""ALTER TABLE statements of Iceberg's SQL extensions: partition fields, write order, identifier fields, branches and tags.

Spark does not parse them; `statement_parser.py` receives their text. `catalog/alter_table.py` runs ALTER TABLE statements that Spark parses.
Spec: Partition Evolution; Sorting; Identifier Field IDs; Snapshot References.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from icefloe.errors import InvalidPartitionSpecError, InvalidSchemaError, NoSuchSnapshotError
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.sort_keys import SortKey, TransformCall, sort_keys, transform_call
from icefloe.spec.partitioning.sort_order import SortDirection
from icefloe.spec.partitioning.transforms import parse_transform
from icefloe.spec.sql_tokens import Tokens
from icefloe.table.table import Table
from icefloe.table.transaction import Transaction

# A function that adds the change to a transaction. The flag is True if names of columns and partition fields are case-sensitive.
Change = Callable[[Transaction, bool], None]
_MS = {"DAYS": 86_400_000, "HOURS": 3_600_000, "MINUTES": 60_000}
_DISTRIBUTION = "write.distribution-mode"
_WRITE_CLAUSES = "DISTRIBUTED BY PARTITION, [LOCALLY] ORDERED BY or UNORDERED was expected"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterStatement:
    """A parsed ALTER TABLE statement of Iceberg's SQL extensions.

    Attributes:
        name: the table's name in the statement, as its parts.
        change: a function that adds the change to a transaction.
    """

    name: tuple[str, ...]
    change: Change

    def run(self, table: Table, *, case_sensitive: bool = True) -> list[tuple[Any, ...]]:
        """Run the statement on a table, in one commit.

        Args:
            table: the table.
            case_sensitive: whether the names of columns and partition fields must match in case.

        Returns:
            An empty list, because the statement returns no rows.

        Raises:
            IcefloeError: the errors of the table's methods.
        """
        with table.transaction() as tx:
            self.change(tx, case_sensitive)
        return []


def alter_statement(text: str) -> AlterStatement | None:
    """Parse an ALTER TABLE statement of Iceberg's SQL extensions. Return None for other statements. Raises `StatementSyntaxError`."""
    tokens = Tokens(text)
    if not tokens.take("ALTER", "TABLE") or tokens.at_end:
        return None
    name = tokens.dotted_name()
    for words, parse in _STATEMENTS:
        if tokens.take(*words):
            change = parse(tokens)
            tokens.end()
            return AlterStatement(name=name, change=change)
    return None


# ---- partition fields ----


def _add_field(tokens: Tokens) -> Change:
    call = transform_call(tokens)
    name = tokens.name() if tokens.take("AS") else None

    def change(tx: Transaction, case_sensitive: bool) -> None:
        with tx.update_spec(case_sensitive) as update:
            update.add_field(call.column, call.transform, name)

    return change


def _drop_field(tokens: Tokens) -> Change:
    call = transform_call(tokens)

    def change(tx: Transaction, case_sensitive: bool) -> None:
        with tx.update_spec(case_sensitive) as update:
            update.remove_field(_field_name(tx, call, case_sensitive))

    return change


def _replace_field(tokens: Tokens) -> Change:
    old = transform_call(tokens)
    tokens.expect("WITH")
    new = transform_call(tokens)
    name = tokens.name() if tokens.take("AS") else None

    def change(tx: Transaction, case_sensitive: bool) -> None:
        with tx.update_spec(case_sensitive) as update:
            update.remove_field(_field_name(tx, old, case_sensitive)).add_field(new.column, new.transform, name)

    return change


def _field_name(tx: Transaction, call: TransformCall, case_sensitive: bool) -> str:
    """Find the partition field that a statement names, and return the field's name.

    A name without a transform is searched first among the names of fields (in exact case, then in any case), then among the columns with an identity field.

    Raises:
        InvalidPartitionSpecError: There is no such field.
    """
    metadata = tx.table_metadata
    fields = metadata.spec().fields
    if call.transform == "identity":
        names = [field.name for field in fields if field.name == call.column]
        names += [field.name for field in fields if not case_sensitive and field.name.lower() == call.column.lower()]
        if names:
            return names[0]
    source = metadata.schema().find_id(call.column, case_sensitive=case_sensitive)
    matching = [field.name for field in fields if field.source_id == source and field.transform == parse_transform(call.transform)]
    if not matching:
        shown = ", ".join(f"{field.name} ({field.transform})" for field in fields) or "none"
        raise InvalidPartitionSpecError(
            f"the table has no partition field {call.transform} of {call.column}", next_step=f"use one of its fields: {shown}"
        )
    return matching[0]


# ---- write order and distribution ----


def _write(tokens: Tokens) -> Change:
    by_partition = False
    order: tuple[str, tuple[SortKey, ...]] | None = None
    while not tokens.at_end:
        if not by_partition and tokens.take("DISTRIBUTED", "BY", "PARTITION"):
            by_partition = True
        elif order is None and tokens.take("UNORDERED"):
            order = "none", ()
        elif order is None and tokens.take("LOCALLY", "ORDERED", "BY"):
            order = "", sort_keys(tokens)
        elif order is None and tokens.take("ORDERED", "BY"):
            order = "range", sort_keys(tokens)
        else:
            raise tokens.syntax_error(f"{_WRITE_CLAUSES}, each at most once")
    if order is None and not by_partition:
        raise tokens.syntax_error(_WRITE_CLAUSES)
    # ORDERED BY alone distributes rows by range; with DISTRIBUTED BY PARTITION, by partition. LOCALLY keeps the distribution.
    mode, keys = order or ("", ())
    return lambda tx, case_sensitive: _set_order(tx, case_sensitive, keys, "hash" if by_partition else mode)


def _set_order(tx: Transaction, case_sensitive: bool, keys: tuple[SortKey, ...], distribution: str) -> None:
    with tx.update_sort_order(case_sensitive) as update:
        for key in keys:
            add = update.asc if key.direction is SortDirection.ASC else update.desc
            add(key.call.column, key.call.transform, key.nulls)
    if distribution:
        tx.set_properties({_DISTRIBUTION: distribution})


# ---- identifier fields ----


def _column_names(tokens: Tokens) -> tuple[str, ...]:
    names = [".".join(tokens.dotted_name())]
    while tokens.take(","):
        names.append(".".join(tokens.dotted_name()))
    return tuple(names)


def _set_identifiers(tokens: Tokens) -> Change:
    names = _column_names(tokens)
    return lambda tx, case_sensitive: _set_identifier_fields(tx, case_sensitive, names)


def _drop_identifiers(tokens: Tokens) -> Change:
    dropped = _column_names(tokens)

    def change(tx: Transaction, case_sensitive: bool) -> None:
        schema = tx.table_metadata.schema()
        ids = [schema.find_field(name, case_sensitive=case_sensitive).field_id for name in dropped]
        missing = [name for name, field_id in zip(dropped, ids, strict=True) if field_id not in schema.identifier_field_ids]
        if missing:
            raise InvalidSchemaError(f"not an identifier field: {', '.join(missing)}", next_step="see SHOW TBLPROPERTIES")
        remaining = [schema.find_column_name(field_id) for field_id in schema.identifier_field_ids if field_id not in ids]
        _set_identifier_fields(tx, True, tuple(name for name in remaining if name is not None))

    return change


def _set_identifier_fields(tx: Transaction, case_sensitive: bool, names: tuple[str, ...]) -> None:
    with tx.update_schema(case_sensitive=case_sensitive) as update:
        update.set_identifier_fields(*names)


# ---- branches and tags ----


@dataclass(frozen=True, slots=True, kw_only=True)
class RefOptions:
    """The options of CREATE and REPLACE BRANCH or TAG; None for options that are not in the statement."""

    name: str
    is_branch: bool
    snapshot_id: int | None
    max_ref_age_ms: int | None
    min_snapshots_to_keep: int | None
    max_snapshot_age_ms: int | None


def _create(tokens: Tokens) -> Change:
    is_branch = tokens.one_of("BRANCH", "TAG") == "BRANCH"
    if_not_exists = tokens.take("IF", "NOT", "EXISTS")
    options = _ref_options(tokens, is_branch)

    def change(tx: Transaction, _: bool) -> None:
        if not (if_not_exists and options.name in tx.table_metadata.refs):
            _create_ref(tx, options)

    return change


def _create_or_replace(tokens: Tokens) -> Change:
    options = _ref_options(tokens, tokens.one_of("BRANCH", "TAG") == "BRANCH")
    return lambda tx, _: _replace_ref(tx, options) if options.name in tx.table_metadata.refs else _create_ref(tx, options)


def _ref_options(tokens: Tokens, is_branch: bool) -> RefOptions:
    name = tokens.name()
    snapshot_id = tokens.number() if tokens.take("AS", "OF", "VERSION") else None
    ref_age = _age(tokens, tokens.number()) if tokens.take("RETAIN") else None
    count = age = None
    if is_branch and tokens.take("WITH", "SNAPSHOT", "RETENTION"):
        number = tokens.number()
        if tokens.take("SNAPSHOTS"):
            count = number
            age = _age(tokens, tokens.number()) if tokens.is_number() else None
        else:
            age = _age(tokens, number)
    return RefOptions(
        name=name,
        is_branch=is_branch,
        snapshot_id=snapshot_id,
        max_ref_age_ms=ref_age,
        min_snapshots_to_keep=count,
        max_snapshot_age_ms=age,
    )


def _age(tokens: Tokens, number: int) -> int:
    return number * _MS[tokens.one_of("DAYS", "HOURS", "MINUTES")]


def _create_ref(tx: Transaction, options: RefOptions) -> None:
    with tx.manage_snapshots() as manage:
        if options.is_branch:
            manage.create_branch(
                options.snapshot_id,
                options.name,
                max_ref_age_ms=options.max_ref_age_ms,
                max_snapshot_age_ms=options.max_snapshot_age_ms,
                min_snapshots_to_keep=options.min_snapshots_to_keep,
            )
        else:
            manage.create_tag(options.snapshot_id, options.name, options.max_ref_age_ms)


def _replace_ref(tx: Transaction, options: RefOptions) -> None:
    refs = tx.table_metadata.refs
    if options.name not in refs:
        kind = "branch" if options.is_branch else "tag"
        names = ", ".join(sorted(refs)) or "none"
        raise NoSuchSnapshotError(f"there is no {kind} {options.name!r}", next_step=f"use CREATE OR REPLACE; there are: {names}")
    source = MAIN if options.snapshot_id is None else options.snapshot_id
    with tx.manage_snapshots() as manage:
        if options.is_branch:
            manage.replace_branch(options.name, source)
        else:
            manage.replace_tag(options.name, source)
        if options.min_snapshots_to_keep is not None:
            manage.set_min_snapshots_to_keep(options.name, options.min_snapshots_to_keep)
        if options.max_snapshot_age_ms is not None:
            manage.set_max_snapshot_age_ms(options.name, options.max_snapshot_age_ms)
        if options.max_ref_age_ms is not None:
            manage.set_max_ref_age_ms(options.name, options.max_ref_age_ms)


def _drop_ref(tokens: Tokens, is_branch: bool) -> Change:
    if_exists = tokens.take("IF", "EXISTS")
    name = tokens.name()

    def change(tx: Transaction, _: bool) -> None:
        if if_exists and name not in tx.table_metadata.refs:
            return
        with tx.manage_snapshots() as manage:
            if is_branch:
                manage.remove_branch(name)
            else:
                manage.remove_tag(name)

    return change


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[Tokens], Change]], ...] = (
    (("ADD", "PARTITION", "FIELD"), _add_field),
    (("DROP", "PARTITION", "FIELD"), _drop_field),
    (("REPLACE", "PARTITION", "FIELD"), _replace_field),
    (("WRITE",), _write),
    (("SET", "IDENTIFIER", "FIELDS"), _set_identifiers),
    (("DROP", "IDENTIFIER", "FIELDS"), _drop_identifiers),
    (("CREATE", "OR", "REPLACE"), _create_or_replace),
    (("CREATE",), _create),
    (("REPLACE", "BRANCH"), lambda tokens: _replace(tokens, True)),
    (("REPLACE", "TAG"), lambda tokens: _replace(tokens, False)),
    (("DROP", "BRANCH"), lambda tokens: _drop_ref(tokens, True)),
    (("DROP", "TAG"), lambda tokens: _drop_ref(tokens, False)),
)


def _replace(tokens: Tokens, is_branch: bool) -> Change:
    options = _ref_options(tokens, is_branch)
    return lambda tx, _: _replace_ref(tx, options)
