"""`FileScanTask`: one data file to be read, or a stretch of it, and what is left to filter there.

`planned_files.py` makes them; datafile and Spark read them.
Spec: Scan Planning.
"""

from dataclasses import dataclass

from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScanTask:
    """Rows to read.

    `residual` is the bound filter without what the file's partition value already decides; it still has to be tested on every row. `start` and `length` are
    bytes of the file: row groups that begin in that stretch belong to the task. `is_covered` says that every row of the file surely matches; it is False
    where the plan was not asked to find out. `delete_files` are those that apply to the file: at most one deletion vector, else position delete files, and
    equality delete files; sequence numbers and partitions have been compared already.
    """

    file: DataFile
    residual: BooleanExpression
    spec_id: int
    length: int
    start: int = 0
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    is_covered: bool = False
    delete_files: tuple[DataFile, ...] = ()
