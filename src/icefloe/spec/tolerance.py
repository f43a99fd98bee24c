"""`Tolerance`: whether files that violate a rule of the format are read with a warning, or refused.

Some writers violate rules in ways that cannot change which rows are read: for example, they write a wrong length of a manifest, or a wrong count of its
entries. A reader that finds such a deviation passes it to the `Tolerance` of the read, which raises an error or warns. Deviations that could change rows are
not in `Deviation`: the reader always raises an error. The ids of the deviations are the ids of the rules in `icefloe.checks`.
"""

import warnings
from enum import Enum, StrEnum

from icefloe.errors import FormatError, FormatWarning, in_one_line


class Deviation(StrEnum):
    """A harmless deviation from the format. Its value is the id of the violated rule."""

    # The length of the manifest differs from the manifest list, but its blocks are complete, and its number of entries is equal.
    MANIFEST_LENGTH = "manifest-length"
    # The manifest list has no length of the manifest, but has the counts of its entries; or a partition summary in it lacks `contains_null`. The
    # summaries of the manifest are not used then.
    MANIFEST_LIST_FIELD = "manifest-list-field"
    # The number of entries of a status differs from the manifest list, but the length of the manifest is equal.
    MANIFEST_FILE_COUNT = "manifest-file-count"


class Tolerance(Enum):
    """The deviations that a read accepts with a warning."""

    DEFAULT = frozenset({Deviation.MANIFEST_LENGTH})
    HARMLESS = frozenset(Deviation)

    def accept(self, deviation: Deviation, message: str, error: FormatError | None = None) -> None:
        """Warn about a deviation if this tolerance accepts it. Otherwise raise its error.

        Args:
            deviation: The kind of deviation.
            message: The warning, with the location of the file.
            error: The error to raise, or None if every tolerance accepts the deviation.

        Raises:
            FormatError: The deviation is not accepted.

        Warns:
            FormatWarning: The deviation is accepted.
        """
        if error is not None and deviation not in self.value:
            raise error
        warnings.warn(FormatWarning(f"{in_one_line(message)} [{deviation}]"), stacklevel=3)
