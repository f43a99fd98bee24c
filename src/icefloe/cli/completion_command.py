"""`icefloe completion`: the script with which a shell completes commands, options, and names of tables.

typer defines the scripts and their protocol: the shell runs `icefloe` with an environment variable that has the words typed so far.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script

PROGRAM = "icefloe"
COMPLETE_VARIABLE = "_ICEFLOE_COMPLETE"


class Shell(StrEnum):
    """The shells for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.", show_default=False)]) -> None:
    """Print the completion script of a shell. In ~/.bashrc: eval "$(icefloe completion bash)"; zsh alike; fish: icefloe completion fish | source."""
    # `echo` and not a console, because a script must not be wrapped.
    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell.value))


def prepare_completion() -> None:
    """Register typer's completion classes, which its scripts need."""
    completion_init()
