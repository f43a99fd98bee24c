"""The command `icefloe`. Exit codes: 0 done, 1 refused or output not written (reason on standard error), 2 wrong usage, 130 interrupted.

The commands are in `show_commands.py`, `ref_commands.py`, `property_commands.py`, `view_commands.py`, `load_command.py`, `expire_command.py` and `demo.py`.
"""

import errno
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from icefloe.cli.demo import demo
from icefloe.cli.expire_command import expire
from icefloe.cli.installed_versions import versions
from icefloe.cli.load_command import load
from icefloe.cli.property_commands import properties, upgrade
from icefloe.cli.ref_commands import branch_app, cherry_pick, publish, rollback, tag_app
from icefloe.cli.screen import print_message, show
from icefloe.cli.shared_options import AsJson
from icefloe.cli.show_commands import app as show_app
from icefloe.cli.show_commands import list_tables, show_log, show_trace, show_tree
from icefloe.cli.view_commands import app as view_app
from icefloe.errors import IcefloeError

REFUSED = 1
INTERRUPTED = 130

# The reader of a pipe has closed it; the disk of a file is full or broken. Errors of tables and their storage are `IcefloeError`.
_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO)


class _Commands(TyperGroup):
    """A command group that turns an `IcefloeError` into its message and exit code.

    Any other exception is a fault of Icefloe and keeps its traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command; print an error of Icefloe and exit."""
        try:
            return super().invoke(ctx)
        except IcefloeError as error:
            print_message(f"icefloe: {error}")
            raise typer.Exit(REFUSED) from error
        except KeyboardInterrupt as error:
            print_message("icefloe: interrupted")
            raise typer.Exit(INTERRUPTED) from error


app = typer.Typer(
    cls=_Commands,
    name="icefloe",
    help="Apache Iceberg for PySpark: load files into tables, inspect tables, and maintain them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(show_app, name="show")
app.add_typer(view_app, name="view")
app.command("list")(list_tables)
app.command("tree")(show_tree)
app.command("trace")(show_trace)
app.command("log")(show_log)
app.add_typer(branch_app, name="branch")
app.add_typer(tag_app, name="tag")
app.command("rollback")(rollback)
app.command("cherry-pick")(cherry_pick)
app.command("publish")(publish)
app.command("properties")(properties)
app.command("upgrade")(upgrade)
app.command("load")(load)
app.command("demo")(demo)
app.command("expire")(expire)


@app.command("version")
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
) -> None:
    """Apache Iceberg for PySpark: load files into tables, inspect tables, and maintain them."""


def main() -> None:
    """Run the command line."""
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
            print_message(f"icefloe: standard output: {error.strerror}")
        sys.exit(REFUSED)
