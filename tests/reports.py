"""The facts of a report, by their names."""

from icefloe.display.report import Facts
from icefloe.display.reportable import Reportable


def facts(value: Reportable) -> dict[str, str]:
    """Return the facts that a value shows, by name."""
    return {name: text for part in value.report().parts if isinstance(part, Facts) for name, text in part.pairs}
