"""The command `icefloe`. Exit codes: 0 done, 1 refused or output not written (reason on standard error), 2 wrong usage, 130 interrupted.

This module imports almost nothing, so that Ctrl-C is handled while the other modules are imported.
"""

import sys
from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_module

if TYPE_CHECKING:
    from icefloe.cli import application, failure_output
else:
    application = lazy_module("icefloe.cli.application")
    failure_output = lazy_module("icefloe.cli.failure_output")


def main() -> None:
    """Run the command line."""
    try:
        application.run()
    except KeyboardInterrupt:
        failure_output.print_failure("interrupted", "interrupted", failure_output.INTERRUPTED, as_json="--json" in sys.argv)
        sys.exit(failure_output.INTERRUPTED)
