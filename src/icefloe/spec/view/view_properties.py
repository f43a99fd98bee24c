"""The properties of views that Icefloe uses. Other properties are kept unchanged. `spec/metadata/property_kinds.py` defines `Property`.

Spec: View spec, View Metadata (`properties`). The names are from the documentation of view properties.
"""

from collections.abc import Mapping

from icefloe.errors import InvalidPropertyError, Problem
from icefloe.spec.metadata.property_kinds import Property, choice, flag, number
from icefloe.spec.metadata.table_properties import METADATA_PATH

VERSION_HISTORY_NUM_ENTRIES = number("version.history.num-entries", 10, 1, "versions", "How many versions of a view its metadata keeps.")
REPLACE_DROP_DIALECT_ALLOWED = flag(
    "replace.drop-dialect.allowed", "Whether a new version may lack a SQL dialect that the current one has.", default=False
)
# The table property with the same name has a different default.
VIEW_METADATA_CODEC = choice(
    "write.metadata.compression-codec", "gzip", "none", "gzip", meaning="Compression of the view's metadata files."
)

ALL: tuple[Property[object], ...] = (VERSION_HISTORY_NUM_ENTRIES, REPLACE_DROP_DIALECT_ALLOWED, VIEW_METADATA_CODEC, METADATA_PATH)  # type: ignore[assignment]


def check_view_properties(properties: Mapping[str, str]) -> None:
    """Check the value of every property that Icefloe uses.

    Raises:
        InvalidPropertyError: Values are invalid. Each invalid property is listed.
    """
    problems: list[Problem] = []
    for view_property in ALL:
        try:
            view_property.read(properties)
        except InvalidPropertyError as error:
            problems.append(Problem(where=view_property.name, what=error.message))
    if problems:
        names = ", ".join(problem.where for problem in problems)
        raise InvalidPropertyError(f"view properties with invalid values: {names}", problems=problems)
