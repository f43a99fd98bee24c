"""`Tolerance`: whether a file that breaks a rule of the format is read nevertheless, with a warning, or refused.

Some writers break rules in ways that cannot change which rows are read: they state a wrong length of a manifest, or count its entries wrongly. A reader that
finds such a deviation passes it to the tolerance of the read, which raises its error or warns. A deviation that could change rows is not in `Deviation`: its
reader raises the error itself. The ids are those of the rules of `icefloe.checks`.
"""

import warnings
from enum import Enum, StrEnum

from icefloe.errors import FormatError, FormatWarning, in_one_line


class Deviation(StrEnum):
    """A harmless deviation from the format, by the id of the rule that it breaks."""

    # The manifest list states another length than the manifest has; its blocks are whole, and it has as many entries as the list counts.
    MANIFEST_LENGTH = "manifest-length"
    # The manifest list has no length, and counts the entries; or a summary of partition values in it lacks `contains_null`, and the manifest's summaries
    # are not used.
    MANIFEST_LIST_FIELD = "manifest-list-field"
    # The manifest list counts other entries of a status than the manifest has; the manifest has exactly the stated length.
    MANIFEST_FILE_COUNT = "manifest-file-count"


class Tolerance(Enum):
    """Which deviations a read accepts with a warning."""

    DEFAULT = frozenset({Deviation.MANIFEST_LENGTH})
    HARMLESS = frozenset(Deviation)

    def accept(self, deviation: Deviation, message: str, error: FormatError | None = None) -> None:
        """Warn of a deviation that this tolerance accepts; raise its error otherwise.

        Args:
            deviation: What deviates.
            message: The warning, on one line; it names the file.
            error: The error; None for a deviation that every tolerance accepts.

        Raises:
            FormatError: The deviation is not accepted.

        Warns:
            FormatWarning: The deviation is accepted.
        """
        if error is not None and deviation not in self.value:
            raise error
        warnings.warn(FormatWarning(f"{in_one_line(message)} [{deviation}]"), stacklevel=3)
