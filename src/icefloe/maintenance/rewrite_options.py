"""`RewriteOptions`, `GroupOptions` and `CommitOptions`: the checked options of rewrites, with the names and defaults of Java's actions. Spec: none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from icefloe.errors import InvalidInputError, InvalidPropertyError
from icefloe.spec.metadata.property_kinds import Property, at_least, choice, flag, number, property_texts
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import DELETE_FILE_PROPERTIES, TARGET_FILE_SIZE_BYTES
from icefloe.spec.partitioning.curve_cells import CurveOrder
from icefloe.spec.partitioning.sort_order import SortOrder

T = TypeVar("T")
MAX_LONG = 2**63 - 1
GIB = 1 << 30


def _share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise ValueError(text)
    return float(text)


def _factor(text: str) -> float:
    if not 0 < float(text) <= 1000:
        raise ValueError(text)
    return float(text)


def _size(name: str, meaning: str) -> Property[int | None]:
    return Property(name, None, at_least(0), "a whole number of bytes", meaning)


TARGET = _size("target-file-size-bytes", "Size of new files; by default the table's `write.target-file-size-bytes`.")
LEAST = _size("min-file-size-bytes", "Smaller files are rewritten; by default 75 % of the target size.")
MOST = _size("max-file-size-bytes", "Larger files are rewritten; by default 180 % of the target size.")
MIN_INPUT_FILES = number("min-input-files", 5, 1, "files", "A group with as many files is rewritten, whatever its size.")
REWRITE_ALL = flag("rewrite-all", "Rewrite every file.", default=False)
MAX_GROUP_BYTES = number("max-file-group-size-bytes", 100 * GIB, 1, "bytes", "Most bytes of files that are rewritten together.")
MAX_GROUP_FILES = number("max-file-group-input-files", MAX_LONG, 1, "files", "Most files that are rewritten together.")
MAX_FILES: Property[int | None] = Property(
    "max-files-to-rewrite",
    None,
    at_least(1),
    "a whole number of files",
    "Most files that are rewritten in all; the others stay as they are.",
)
DELETE_FILE_THRESHOLD = number(
    "delete-file-threshold", 2_147_483_647, 1, "delete files", "A file is rewritten if as many delete files apply to it."
)
DELETE_RATIO_THRESHOLD: Property[float] = Property(
    "delete-ratio-threshold", 0.3, _share, "a number from 0 to 1", "A file is rewritten if at least this share of its rows is deleted."
)
CONCURRENT_GROUPS = number(
    "max-concurrent-file-group-rewrites",
    5,
    1,
    "files",
    "New files that are written at once in this process; Spark schedules its own tasks.",
)
PARTIAL_PROGRESS = flag("partial-progress.enabled", "Commit groups as they are done, not all at the end.", default=False)
MAX_COMMITS = number("partial-progress.max-commits", 10, 1, "commits", "Most commits with partial progress.")
MAX_FAILED_COMMITS: Property[int | None] = Property(
    "partial-progress.max-failed-commits",
    None,
    at_least(0),
    "a whole number of commits",
    "Most failed commits; after more the rest is given up. By default `partial-progress.max-commits`.",
)
STARTING_SEQUENCE_NUMBER = flag(
    "use-starting-sequence-number",
    "Keep the sequence number of the snapshot that was read, so that deletes of other writers still apply.",
    default=True,
)
JOB_ORDER = choice(
    "rewrite-job-order",
    "none",
    "none",
    "bytes-asc",
    "bytes-desc",
    "files-asc",
    "files-desc",
    meaning="Which groups are rewritten first.",
)
OUTPUT_SPEC_ID: Property[int | None] = Property(
    "output-spec-id", None, at_least(0), "the id of a partition spec", "Partition spec of new files; by default the table's current one."
)
REMOVE_DANGLING = flag(
    "remove-dangling-deletes", "Remove delete files that apply to no data file any more, in a commit of its own.", default=False
)
COMPRESSION_FACTOR: Property[float] = Property(
    "compression-factor", 1.0, _factor, "a number above 0", "Bytes of the sorted rows as a factor of those of the files."
)
# Java divides the sort of a file into several partitions to limit memory. Spark's sort spills to disk, and several partitions would give several files.
PARTITIONS_PER_FILE = number(
    "shuffle-partitions-per-file", 1, 1, "partitions", "Checked, and without effect: each new file is sorted by one Spark task."
)
# Java's tasks may read a delete file once for each data file; a task of this rewrite reads it once for all files of its group.
CACHE_DELETE_FILES = flag(
    "cache-delete-files", "Checked, and without effect: a task reads a delete file once for all files that it rewrites.", default=False
)
TEXT_BYTES = number(
    "var-length-contribution",
    8,
    1,
    "bytes",
    "Bytes of a text or binary value that count, after those that all values begin with; from 7 on the effect is the same.",
)
MOST_OUTPUT = number(
    "max-output-size", 2_147_483_647, 1, "bytes", "Most bytes of a row's place on the curve; from 8 on the effect is the same."
)

OF_COMMITS = (CONCURRENT_GROUPS, PARTIAL_PROGRESS, MAX_COMMITS, MAX_FAILED_COMMITS)
COMMON = (
    *(
        TARGET,
        LEAST,
        MOST,
        MIN_INPUT_FILES,
        REWRITE_ALL,
        MAX_GROUP_BYTES,
        MAX_GROUP_FILES,
        MAX_FILES,
        DELETE_FILE_THRESHOLD,
        DELETE_RATIO_THRESHOLD,
    ),
    *OF_COMMITS,
    *(STARTING_SEQUENCE_NUMBER, JOB_ORDER, OUTPUT_SPEC_ID, REMOVE_DANGLING, CACHE_DELETE_FILES),
)
# Java's documentation lists `max-files-to-rewrite`, but its code refuses the option.
OF_POSITION_DELETES = (
    *(TARGET, LEAST, MOST, MIN_INPUT_FILES, REWRITE_ALL, MAX_GROUP_BYTES, MAX_GROUP_FILES, MAX_FILES),
    *OF_COMMITS,
    JOB_ORDER,
)
# The size in bytes of a new delete file if neither an option nor a table property sets it.
DELETE_FILE_BYTES = 64 << 20
OF_SORT = (COMPRESSION_FACTOR, PARTITIONS_PER_FILE)
OF_CURVE = (TEXT_BYTES, MOST_OUTPUT)
_NEEDS = ((" without a sort", OF_SORT), (" without zorder or hilbert", OF_CURVE))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizes:
    """Sizes in bytes: files from `least` to `most` are not rewritten for their size; new files have the size `target`."""

    target: int
    least: int
    most: int

    @property
    def limit(self) -> int:
        """The size at which a new file is closed: between `target` and `most`, so that no small rest remains."""
        return self.target + (self.most - self.target) // 2

    def output_files(self, size: int) -> int:
        """Return the number of new files for `size` bytes: full files, and a file for the rest only if the rest is large enough."""
        if size < self.target:
            return 1
        full, rest = divmod(size, self.target)
        if rest > self.least:
            return full + 1
        if size // full < min(self.target * 11 // 10, self.limit):
            return full
        return full + (1 if rest else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """The checked options that concern the commits of any rewrite. `convert_equality_deletes` has only these."""

    concurrent_groups: int
    partial_progress: bool
    max_commits: int
    max_failed_commits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions(CommitOptions):
    """The checked options of rewrites of file groups. `rewrite_position_delete_files` has only these."""

    sizes: FileSizes
    min_input_files: int
    rewrite_all: bool
    max_group_bytes: int
    max_group_files: int
    max_files: int | None
    job_order: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteOptions(GroupOptions):
    """The checked options of a rewrite of data files. The `Option` values of this module explain the attributes."""

    output_spec_id: int
    delete_file_threshold: int
    delete_ratio_threshold: float
    keeps_sequence_number: bool
    remove_dangling: bool
    compression_factor: float
    text_bytes: int
    most_output_bytes: int


def rewrite_options(given: Mapping[str, Any], metadata: TableMetadata, order: SortOrder | CurveOrder) -> RewriteOptions:
    """Check the options of a rewrite.

    Args:
        given: Options by name; numbers and truth values, or their texts.
        metadata: The table's metadata, whose properties set defaults.
        order: The order of rows: there are more options for a sort, and again more for a curve.

    Raises:
        InvalidInputError: An option is unknown, has an invalid value, or contradicts another.
    """
    texts = property_texts(given, "rewrite")
    known: tuple[Property[Any], ...] = COMMON
    if isinstance(order, CurveOrder):
        known += OF_SORT + OF_CURVE
    elif not order.is_unsorted:
        known += OF_SORT
    _refuse_unknown("rewrite_data_files", texts, known)

    def read(option: Property[Any]) -> Any:
        return _read_option(texts, option)

    for without_effect in (PARTITIONS_PER_FILE, CACHE_DELETE_FILES):
        read(without_effect)
    return RewriteOptions(
        **_of_groups(texts, TARGET_FILE_SIZE_BYTES.read(metadata.properties)),
        output_spec_id=_spec_id(read(OUTPUT_SPEC_ID), metadata),
        delete_file_threshold=read(DELETE_FILE_THRESHOLD),
        delete_ratio_threshold=read(DELETE_RATIO_THRESHOLD),
        keeps_sequence_number=read(STARTING_SEQUENCE_NUMBER),
        remove_dangling=read(REMOVE_DANGLING),
        compression_factor=read(COMPRESSION_FACTOR),
        text_bytes=read(TEXT_BYTES),
        most_output_bytes=read(MOST_OUTPUT),
    )


def position_delete_options(given: Mapping[str, Any], metadata: TableMetadata) -> GroupOptions:
    """Check the options of a rewrite of position delete files. Raises `InvalidInputError` as `rewrite_options` does."""
    texts = property_texts(given, "rewrite")
    _refuse_unknown("rewrite_position_delete_files", texts, OF_POSITION_DELETES)
    of_table = DELETE_FILE_PROPERTIES[TARGET_FILE_SIZE_BYTES.name].read(metadata.properties)
    return GroupOptions(**_of_groups(texts, DELETE_FILE_BYTES if of_table is None else of_table))


def conversion_options(given: Mapping[str, Any]) -> CommitOptions:
    """Check the options of a conversion: the options about commits. Raises `InvalidInputError` as `rewrite_options` does."""
    texts = property_texts(given, "conversion")
    _refuse_unknown("convert_equality_deletes", texts, OF_COMMITS)
    return CommitOptions(**_of_commits(texts))


def _of_commits(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values for the attributes of `CommitOptions`."""
    max_commits, failed = _read_option(texts, MAX_COMMITS), _read_option(texts, MAX_FAILED_COMMITS)
    return {
        "concurrent_groups": _read_option(texts, CONCURRENT_GROUPS),
        "partial_progress": _read_option(texts, PARTIAL_PROGRESS),
        "max_commits": max_commits,
        "max_failed_commits": max_commits if failed is None else failed,
    }


def _of_groups(texts: Mapping[str, str], target_bytes: int) -> dict[str, Any]:
    """Return the values for the attributes of `GroupOptions`; `target_bytes` is the default size of new files."""
    target = _read_option(texts, TARGET)
    return {
        **_of_commits(texts),
        "sizes": _sizes(target_bytes if target is None else target, _read_option(texts, LEAST), _read_option(texts, MOST)),
        "min_input_files": _read_option(texts, MIN_INPUT_FILES),
        "rewrite_all": _read_option(texts, REWRITE_ALL),
        "max_group_bytes": _read_option(texts, MAX_GROUP_BYTES),
        "max_group_files": _read_option(texts, MAX_GROUP_FILES),
        "max_files": _read_option(texts, MAX_FILES),
        "job_order": _read_option(texts, JOB_ORDER),
    }


def _refuse_unknown(procedure: str, texts: Mapping[str, str], known: Sequence[Property[Any]]) -> None:
    unknown = sorted(set(texts) - {option.name for option in known})
    if unknown:
        without = next((text for text, options in _NEEDS if any(option.name in unknown for option in options)), "")
        raise InvalidInputError(
            f"{procedure} has no option {', '.join(unknown)}" + (without if COMMON[0] in known else ""),
            next_step=f"its options are {', '.join(option.name for option in known)}",
        )


def _read_option(texts: Mapping[str, str], option: Property[T]) -> T:
    try:
        return option.read(texts)
    except InvalidPropertyError as error:
        raise InvalidInputError(
            f"the option {option.name} is {texts[option.name]!r}, which is not {option.allowed}", next_step=f"pass {option.allowed}"
        ) from error


def _sizes(target: int, least: int | None, most: int | None) -> FileSizes:
    if target < 1:
        raise InvalidInputError(f"the option {TARGET.name} is {target}; it is the size of new files", next_step="pass a size of at least 1")
    least = target * 3 // 4 if least is None else least
    most = target * 9 // 5 if most is None else most
    if target <= least:
        raise InvalidInputError(
            f"{TARGET.name} is {target} and {LEAST.name} {least}: new files would be rewritten again", next_step="pass a larger target"
        )
    if target >= most:
        raise InvalidInputError(
            f"{TARGET.name} is {target} and {MOST.name} {most}: new files would be rewritten again", next_step="pass a smaller target"
        )
    return FileSizes(target=target, least=least, most=most)


def _spec_id(given: int | None, metadata: TableMetadata) -> int:
    known = sorted(spec.spec_id for spec in metadata.partition_specs)
    if given is not None and given not in known:
        raise InvalidInputError(
            f"the option {OUTPUT_SPEC_ID.name} is {given}, and the table has no such partition spec",
            next_step=f"there are: {', '.join(map(str, known))}",
        )
    return metadata.default_spec_id if given is None else given
