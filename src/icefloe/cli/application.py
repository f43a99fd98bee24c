"""The application behind the command `icefloe`: its options, its log, and the handling of output that cannot be written.

`command_table.py` lists the commands.
"""

import errno
import logging
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from icefloe.cli.command_group import CommandGroup
from icefloe.cli.completion_command import COMPLETE_VARIABLE, prepare_completion
from icefloe.cli.failure_output import REFUSED, print_failure
from icefloe.display.progress import hide_progress
from icefloe.lazy_imports import lazy_module

if TYPE_CHECKING:
    from icefloe.cli import installed_versions
else:
    installed_versions = lazy_module("icefloe.cli.installed_versions")

# Errors of standard output: the reader has closed the pipe, or the disk is full or broken. Errors of tables and their storage are `IcefloeError`.
_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO)


class LogLevel(StrEnum):
    """The levels of Python's `logging`."""

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
    rich_markup_mode=None,  # rich would draw the help text in boxes, which are cut in narrow terminals
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        installed_versions.show_version()
        raise typer.Exit


@app.callback()
def _icefloe(
    _version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show versions and stop.")] = False,
    log_level: Annotated[LogLevel | None, typer.Option("--log-level", help="Show the log from this level on, on standard error.")] = None,
) -> None:
    """Apache Iceberg for PySpark: load files into tables, look into tables, change and maintain them."""
    if log_level is not None:
        logging.basicConfig(level=log_level.value, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def run() -> None:
    """Run the command line."""
    hide_progress()  # commands show the progress of their own steps only
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
        # The rest of the buffer would raise the error again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            print_failure("output", f"standard output: {error.strerror}", REFUSED, as_json="--json" in sys.argv)
        sys.exit(REFUSED)
