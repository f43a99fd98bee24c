"""The command `icefloe`. Exit codes: 0 done, 1 refused or output not written (reason on standard error), 2 wrong usage, 130 interrupted.

The commands are in the modules `*_command.py` and `*_commands.py`, and in `demo.py`; this module names them and puts each into a group of the help text.
"""

import errno
import logging
import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from icefloe.cli.catalog_commands import create, describe, drop, namespace_app, register, rename
from icefloe.cli.command_group import CHANGE, FILES_IN, LOOK, MAINTAIN, REFUSED, SET_UP, CommandGroup, PlainGroup, print_failure
from icefloe.cli.completion_command import COMPLETE_VARIABLE, completion, prepare_completion
from icefloe.cli.demo import demo
from icefloe.cli.doctor_command import doctor
from icefloe.cli.expire_command import expire
from icefloe.cli.installed_versions import versions
from icefloe.cli.load_command import load
from icefloe.cli.maintenance_commands import call_procedure, rewrite_manifests
from icefloe.cli.property_commands import ActionFirst, properties, upgrade
from icefloe.cli.ref_commands import branch_app, cherry_pick, publish, rollback, tag_app
from icefloe.cli.row_commands import head, sql
from icefloe.cli.schema_commands import schema_app, sort, spec_app
from icefloe.cli.screen import show
from icefloe.cli.shared_options import AsJson
from icefloe.cli.show_commands import app as show_app
from icefloe.cli.show_commands import (
    check_table,
    list_files,
    list_refs,
    list_tables,
    show_location,
    show_log,
    show_trace,
    show_tree,
    show_uuid,
)
from icefloe.cli.view_commands import app as view_app
from icefloe.display.progress import hide_progress

# The reader of a pipe has closed it; the disk of a file is full or broken. Errors of tables and their storage are `IcefloeError`.
_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO)


class LogLevel(StrEnum):
    """The levels of Python's log."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


app = typer.Typer(
    cls=CommandGroup,
    name="icefloe",
    help="Apache Iceberg for PySpark: load files into tables, look into tables, change and maintain them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the help text in boxes is cut in narrow terminals
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("list", rich_help_panel=LOOK)(list_tables)
app.command("describe", rich_help_panel=LOOK)(describe)
app.command("head", rich_help_panel=LOOK)(head)
app.command("sql", rich_help_panel=LOOK)(sql)
app.command("tree", rich_help_panel=LOOK)(show_tree)
app.command("log", rich_help_panel=LOOK)(show_log)
app.command("files", rich_help_panel=LOOK)(list_files)
app.command("check", rich_help_panel=LOOK)(check_table)
app.command("refs", rich_help_panel=LOOK)(list_refs)
app.command("location", rich_help_panel=LOOK)(show_location)
app.command("uuid", rich_help_panel=LOOK)(show_uuid)
app.command("trace", rich_help_panel=LOOK)(show_trace)
app.add_typer(show_app, name="show", rich_help_panel=LOOK, cls=PlainGroup)

app.command("create", rich_help_panel=CHANGE)(create)
app.command("rename", rich_help_panel=CHANGE)(rename)
app.command("drop", rich_help_panel=CHANGE)(drop)
app.command("register", rich_help_panel=CHANGE)(register)
app.add_typer(namespace_app, name="namespace", rich_help_panel=CHANGE, cls=PlainGroup)
app.add_typer(view_app, name="view", rich_help_panel=CHANGE, cls=PlainGroup)
app.add_typer(schema_app, name="schema", rich_help_panel=CHANGE, cls=PlainGroup)
app.add_typer(spec_app, name="spec", rich_help_panel=CHANGE, cls=PlainGroup)
app.command("sort", rich_help_panel=CHANGE)(sort)
app.command("properties", rich_help_panel=CHANGE, cls=ActionFirst)(properties)
app.command("upgrade", rich_help_panel=CHANGE)(upgrade)
app.add_typer(branch_app, name="branch", rich_help_panel=CHANGE, cls=PlainGroup)
app.add_typer(tag_app, name="tag", rich_help_panel=CHANGE, cls=PlainGroup)
app.command("rollback", rich_help_panel=CHANGE)(rollback)
app.command("cherry-pick", rich_help_panel=CHANGE)(cherry_pick)
app.command("publish", rich_help_panel=CHANGE)(publish)

app.command("expire", rich_help_panel=MAINTAIN)(expire)
app.command("rewrite-manifests", rich_help_panel=MAINTAIN)(rewrite_manifests)
app.command("call", rich_help_panel=MAINTAIN)(call_procedure)

app.command("load", rich_help_panel=FILES_IN)(load)

app.command("doctor", rich_help_panel=SET_UP)(doctor)
app.command("completion", rich_help_panel=SET_UP)(completion)
app.command("demo", rich_help_panel=SET_UP)(demo)


@app.command("version", rich_help_panel=SET_UP)
def show_version(as_json: AsJson = False) -> None:
    """Show the versions of Icefloe, PySpark, PyArrow and the Java that was found."""
    show(versions(), as_json=as_json)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        show(versions(), as_json=False)
        raise typer.Exit


@app.callback()
def _icefloe(
    _version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show versions and stop.")] = False,
    log_level: Annotated[LogLevel | None, typer.Option("--log-level", help="Show the log from this level on, on standard error.")] = None,
) -> None:
    """Apache Iceberg for PySpark: load files into tables, look into tables, change and maintain them."""
    if log_level is not None:
        logging.basicConfig(level=log_level.value, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def main() -> None:
    """Run the command line."""
    hide_progress()  # commands show their own steps
    if COMPLETE_VARIABLE in os.environ:
        prepare_completion()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows a question mark instead of a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        # What is left in the buffer would raise again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            print_failure("output", f"standard output: {error.strerror}", REFUSED, as_json="--json" in sys.argv)
        sys.exit(REFUSED)
