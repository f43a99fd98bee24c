"""The properties of views that Icefloe uses; others are kept unchanged. `kernel/metadata/table_properties.py` defines `Property`.

Spec: View spec, View Metadata (`properties`). The names are those of the view properties in the format's documentation.
"""

from collections.abc import Mapping

from icefloe.errors import InvalidPropertyError, Problem
from icefloe.kernel.metadata.table_properties import METADATA_PATH, Property


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ValueError(text)
    return int(text)


def _true_or_false(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _codec(text: str) -> str:
    if text.lower() not in ("none", "gzip"):
        raise ValueError(text)
    return text.lower()


VERSION_HISTORY_NUM_ENTRIES = Property(
    "version.history.num-entries",
    10,
    _positive,
    "a whole number (versions) of at least 1",
    "How many versions of a view its metadata keeps.",
)
REPLACE_DROP_DIALECT_ALLOWED = Property(
    "replace.drop-dialect.allowed",
    False,
    _true_or_false,
    "true or false",
    "Whether a new version may lack a SQL dialect that the current one has.",
)
# The name of the table property, with another default.
VIEW_METADATA_CODEC = Property(
    "write.metadata.compression-codec", "gzip", _codec, "one of none, gzip", "Compression of the view's metadata files."
)

ALL: tuple[Property[object], ...] = (VERSION_HISTORY_NUM_ENTRIES, REPLACE_DROP_DIALECT_ALLOWED, VIEW_METADATA_CODEC, METADATA_PATH)  # type: ignore[assignment]


def check_view_properties(properties: Mapping[str, str]) -> None:
    """Check the value of every property that Icefloe uses.

    Raises:
        InvalidPropertyError: Each invalid property is listed.
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
