"""`FileScanTask`: one data file to read, or a byte range of it, with the residual filter and the delete files that apply.

`scan_plan.py` creates the tasks; `icefloe.datafile` and `icefloe.spark` read the rows.
Spec: Scan Planning.
"""

from dataclasses import dataclass

from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScanTask:
    """One data file, or a byte range of it, that a scan reads, with all that a reader needs to return the matching live rows.

    Attributes:
        file: The data file.
        residual: The bound filter without the predicates that the file's partition value decides. The reader tests it on every row.
        length: Length of the byte range.
        start: Start of the byte range; the row groups that begin in the range belong to the task.
        sequence_number: The data sequence number of the file.
        file_sequence_number: The file sequence number of the file.
        is_covered: True if every row of the file matches the filter; always False in a plan without `find_covered`.
        delete_files: The delete files that apply to the file, with sequence numbers and partitions compared already: either one deletion vector or any number
            of position delete files, and any number of equality delete files.
    """

    file: DataFile
    residual: BooleanExpression
    length: int
    start: int = 0
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    is_covered: bool = False
    delete_files: tuple[DataFile, ...] = ()

    @property
    def spec_id(self) -> int:
        """The partition spec of the file."""
        return self.file.spec_id
