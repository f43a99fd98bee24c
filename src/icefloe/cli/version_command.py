"""The command `version`."""

from icefloe.cli.installed_versions import versions
from icefloe.cli.screen import show
from icefloe.cli.shared_options import AsJson


def show_version(as_json: AsJson = False) -> None:
    """Show the versions of Icefloe, PySpark, PyArrow and the Java that was found."""
    show(versions(), as_json=as_json)
