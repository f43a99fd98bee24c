"""The commands `branch`, `tag`, `rollback`, `cherry-pick` and `publish`, which change branches and tags.

Each prints the branches and tags after the change. Spec: Snapshot References; Snapshot Retention Policy.
"""

import re
from typing import Annotated

import typer

import icefloe.inspect as look
from icefloe.cli.command_group import PlainGroup
from icefloe.cli.shared_options import complete_ref
from icefloe.cli.table_command import changes_table, looks_at_table
from icefloe.display.reportable import Reportable
from icefloe.errors import InvalidInputError
from icefloe.inspect.lookup import existing_snapshot_of, snapshot_id_of
from icefloe.operations.changes.manage_snapshots import ManageSnapshots
from icefloe.operations.loaded_table import TableReader
from icefloe.procedures.time_arguments import utc_time_of
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.table.table import Table

branch_app = typer.Typer(help="Create, move, retain and remove branches.", no_args_is_help=True, cls=PlainGroup)
tag_app = typer.Typer(help="Create, move, retain and remove tags.", no_args_is_help=True, cls=PlainGroup)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The branch's or tag's name.", show_default=False, autocompletion=complete_ref)]
Target = Annotated[
    str, typer.Argument(metavar="SNAPSHOT", help="A snapshot id, branch or tag.", show_default=False, autocompletion=complete_ref)
]
At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="SNAPSHOT", help="A snapshot id, branch or tag; the head of main by default.", autocompletion=complete_ref
    ),
]
OfBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to change.", autocompletion=complete_ref)]
KeepAtLeast = Annotated[
    int | None, typer.Option("--min-snapshots-to-keep", metavar="N", help="How many of its snapshots expiry always keeps.")
]
_AGE_HELP = "such as 90m, 12h, 7d, or milliseconds"
KeepSnapshots = Annotated[
    str | None,
    typer.Option("--max-snapshot-age", metavar="AGE", help=f"Maximum age of its snapshots before they may be expired: {_AGE_HELP}."),
]
KeepRef = Annotated[
    str | None,
    typer.Option("--max-ref-age", metavar="AGE", help=f"Maximum age of the branch or tag itself before it may be expired: {_AGE_HELP}."),
]

_UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGE = re.compile(r"(\d{1,18})(ms|s|m|h|d|)", re.ASCII)


@branch_app.command("list")
@looks_at_table
def list_branches(opened: TableReader) -> Reportable:
    """List branches and tags: their snapshots, and how far they are ahead of main and behind it."""
    return look.refs(opened)


@branch_app.command("create")
@changes_table
def create_branch(
    opened: Table,
    name: Name,
    at: At = None,
    min_snapshots_to_keep: KeepAtLeast = None,
    max_snapshot_age: KeepSnapshots = None,
    max_ref_age: KeepRef = None,
) -> Reportable:
    """Create a branch."""
    with opened.manage_snapshots() as manage:
        source = None if at is None else _snapshot(opened, at)
        manage.create_branch(source, name, _age(max_ref_age), _age(max_snapshot_age), min_snapshots_to_keep)
    return look.refs(opened)


@branch_app.command("keep")
@changes_table
def keep_branch(
    opened: Table,
    name: Name,
    min_snapshots_to_keep: KeepAtLeast = None,
    max_snapshot_age: KeepSnapshots = None,
    max_ref_age: KeepRef = None,
) -> Reportable:
    """Set how long a branch and its snapshots are kept."""
    with opened.manage_snapshots() as manage:
        if min_snapshots_to_keep is None and max_snapshot_age is None and max_ref_age is None:
            raise InvalidInputError(
                "no retention was given for the branch",
                next_step="pass --max-ref-age, --max-snapshot-age or --min-snapshots-to-keep",
            )
        if min_snapshots_to_keep is not None:
            manage.set_min_snapshots_to_keep(name, min_snapshots_to_keep)
        if max_snapshot_age is not None:
            manage.set_max_snapshot_age_ms(name, _age(max_snapshot_age))
        if max_ref_age is not None:
            manage.set_max_ref_age_ms(name, _age(max_ref_age))
    return look.refs(opened)


@branch_app.command("remove")
@changes_table
def remove_branch(opened: Table, name: Name) -> Reportable:
    """Remove a branch; its snapshots remain until they expire."""
    return _done(opened, opened.manage_snapshots().remove_branch(name))


@branch_app.command("rename")
@changes_table
def rename_branch(opened: Table, name: Name, new_name: Annotated[str, typer.Argument(metavar="NEW", show_default=False)]) -> Reportable:
    """Rename a branch."""
    return _done(opened, opened.manage_snapshots().rename_branch(name, new_name))


@branch_app.command("replace")
@changes_table
def replace_branch(opened: Table, name: Name, to: Target) -> Reportable:
    """Set a branch to another snapshot, also if snapshots of the branch are lost from it."""
    return _done(opened, opened.manage_snapshots().replace_branch(name, _snapshot(opened, to)))


@branch_app.command("fast-forward")
@changes_table
def fast_forward(opened: Table, name: Name, to: Target) -> Reportable:
    """Move a branch forward to a descendant of its head; refused if snapshots of the branch would be lost from it."""
    return _done(opened, opened.manage_snapshots().fast_forward(name, _snapshot(opened, to)))


@tag_app.command("list")
@looks_at_table
def list_tags(opened: TableReader) -> Reportable:
    """List branches and tags."""
    return look.refs(opened)


@tag_app.command("create")
@changes_table
def create_tag(opened: Table, name: Name, at: At = None, max_ref_age: KeepRef = None) -> Reportable:
    """Create a tag."""
    source = None if at is None else _snapshot(opened, at)
    return _done(opened, opened.manage_snapshots().create_tag(source, name, _age(max_ref_age)))


@tag_app.command("keep")
@changes_table
def keep_tag(
    opened: Table, name: Name, max_ref_age: Annotated[str, typer.Option("--max-ref-age", metavar="AGE", help=_AGE_HELP)]
) -> Reportable:
    """Set how long a tag is kept."""
    return _done(opened, opened.manage_snapshots().set_max_ref_age_ms(name, _age(max_ref_age)))


@tag_app.command("remove")
@changes_table
def remove_tag(opened: Table, name: Name) -> Reportable:
    """Remove a tag; its snapshot remains until it expires."""
    return _done(opened, opened.manage_snapshots().remove_tag(name))


@tag_app.command("replace")
@changes_table
def replace_tag(opened: Table, name: Name, to: Target) -> Reportable:
    """Set a tag to another snapshot."""
    return _done(opened, opened.manage_snapshots().replace_tag(name, _snapshot(opened, to)))


@changes_table
def rollback(
    opened: Table,
    to: Annotated[
        str | None,
        typer.Argument(metavar="SNAPSHOT", help="A snapshot of the branch's history, by id or tag.", autocompletion=complete_ref),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="The newest snapshot before this time: 2024-01-31T12:00 (UTC without an offset), or ms since 1970.",
        ),
    ] = None,
    branch: OfBranch = MAIN,
) -> Reportable:
    """Set a branch back to an earlier snapshot of its own history. Nothing is deleted: later snapshots remain until they expire."""
    if (to is None) == (to_time is None):
        raise InvalidInputError("rollback takes either a snapshot or a time", next_step="pass a snapshot or --to-time")
    manage = opened.manage_snapshots()
    if to is not None:
        return _done(opened, manage.rollback_to_snapshot(_snapshot(opened, to), branch))
    return _done(opened, manage.rollback_to_timestamp(_time_ms(to_time or ""), branch))


@changes_table
def cherry_pick(opened: Table, snapshot: Target, branch: OfBranch = MAIN) -> Reportable:
    """Apply the change of a snapshot to a branch: of an append, or of an overwrite of whole partitions."""
    return _done(opened, opened.manage_snapshots().cherry_pick(_snapshot(opened, snapshot), branch))


@changes_table
def publish(
    opened: Table,
    wap_id: Annotated[str, typer.Argument(metavar="WAP_ID", help="The `wap.id` of the staged snapshot.")],
    branch: OfBranch = MAIN,
) -> Reportable:
    """Publish a staged snapshot by its wap id."""
    return _done(opened, opened.manage_snapshots().publish_changes(wap_id, branch))


def _done(opened: Table, manage: ManageSnapshots) -> Reportable:
    manage.commit()
    return look.refs(opened)


def _snapshot(opened: Table, text: str) -> int | str:
    """Return the name of a branch or tag, so that a concurrent move of it is detected; convert any other text to a snapshot id.

    Raises:
        NoSuchSnapshotError: The table has no such snapshot, branch or tag.
    """
    return text if text in opened.refs() else existing_snapshot_of(opened, snapshot_id_of(opened, text)).snapshot_id


def _age(text: str | None) -> int | None:
    """Convert an age, such as `7d`, to milliseconds; None stays None.

    Raises:
        InvalidInputError: The text is not an age.
    """
    if text is None:
        return None
    age = _AGE.fullmatch(text)
    if age is None:
        raise InvalidInputError(f"{text!r} is not an age", next_step=f"write an age {_AGE_HELP}")
    return int(age[1]) * _UNITS_MS[age[2]]


def _time_ms(text: str) -> int:
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        time = utc_time_of(text)
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r} is not a time: {error}", next_step="write it as 2024-01-31T12:00:00, or as milliseconds"
        ) from error
    return round(time.timestamp() * 1000)
