"""`WriteOptions`: what the options of one write and the session's settings ask for, under the names that Spark's users of Iceberg know.

An option wins over a setting, a setting over the table's property. What is asked for is done in `formatted_rows.py` and `spark/write/sql_write.py`.
Spec: Writing Data Files; Commit Conflict Resolution and Retry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from icefloe.errors import InvalidInputError, InvalidPropertyError, UnsupportedFeatureError
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_properties import Property
from icefloe.kernel.option import Option
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.spark.write.formatted_rows import WriteForm

T = TypeVar("T")

SNAPSHOT_PROPERTY = "snapshot-property."
_SESSION = "spark.sql.iceberg."
_FLAGS = {
    "check-nullability": (True, True),
    "check-ordering": (True, True),
    "merge-schema": (False, True),
    "use-table-distribution-and-ordering": (True, False),
}
# Options that are table properties for one write, and whether the session has a setting of the name.
_PROPERTIES: Mapping[str, tuple[Property[Any], bool]] = {
    "write-format": (table_properties.DEFAULT_FILE_FORMAT, False),
    "target-file-size-bytes": (table_properties.TARGET_FILE_SIZE_BYTES, False),
    "distribution-mode": (table_properties.DISTRIBUTION_MODE, True),
    "fanout-enabled": (table_properties.FANOUT_ENABLED, False),
    "advisory-partition-size": (table_properties.ADVISORY_PARTITION_SIZE_BYTES, True),
}
# Of each format's own properties: the codec and how hard it tries.
_COMPRESSION: Mapping[str, Mapping[str, Property[Any]]] = {
    "compression-codec": {
        "parquet": table_properties.PARQUET_CODEC,
        "avro": table_properties.AVRO_CODEC,
        "orc": table_properties.ORC_CODEC,
    },
    "compression-level": {"parquet": table_properties.PARQUET_COMPRESSION_LEVEL},
    "compression-strategy": {"orc": table_properties.ORC_COMPRESSION_STRATEGY},
}
_OTHERS = ("branch", "overwrite-mode", "isolation-level", "validate-from-snapshot-id", "output-spec-id", "output-sort-order-id")
# Options of Java's that ask for what Icefloe does not do; in silence they would be lost.
REFUSED_OPTIONS = {
    "rewritten-file-scan-task-set-id": "rewrite files by the procedures",
    "delete-format": "leave it out: deletes have the format of the table's version",
    "target-delete-file-size-bytes": "leave it out",
    "delete-granularity": "set the table property write.delete.granularity",
    "delete-mode": "set the table property write.delete.mode",
    "shred-variants": "leave it out: variants are written whole",
    "variant-inference-buffer-size": "leave it out: variants are written whole",
}
_READS = ("snapshot-id", "as-of-timestamp", "tag")
KNOWN_OPTIONS = (*_FLAGS, *_PROPERTIES, *_COMPRESSION, *_OTHERS, *REFUSED_OPTIONS, *_READS, "mergeschema")
# The settings of a session that stand for options of every write, after `spark.sql.iceberg.`.
SETTINGS = (
    *(name for name, (_, in_session) in _FLAGS.items() if in_session),
    *(name for name, (_, in_session) in _PROPERTIES.items() if in_session),
    *_COMPRESSION,
    SNAPSHOT_PROPERTY,
)
# The same for the configuration reference: options of a write, then settings of the session in full.
WRITE_OPTIONS = (
    *(Option(name, f"`{known.name}` for one write.") for name, (known, _) in _PROPERTIES.items()),
    *(
        Option(name, f"{', '.join(f'`{known.name}`' for known in formats.values())} for one write, by its format.")
        for name, formats in _COMPRESSION.items()
    ),
    Option("use-table-distribution-and-ordering", "`false`: rows are neither distributed nor sorted before they are written.", "`true`"),
    Option(
        "check-nullability", "`false`: columns that may hold null are not refused before the job; a null in a required column is.", "`true`"
    ),
    Option("check-ordering", "`false`: the order of the columns is not checked before the job.", "`true`"),
    Option("merge-schema", "`true`: columns that the table lacks are added in the commit of the rows.", "`false`"),
    Option("mergeSchema", "The same.", "`false`"),
    Option("branch", "The branch that is written.", "`main`"),
    Option("overwrite-mode", "Of an overwrite of everything: `static`, or `dynamic`, the partitions that the rows are in.", "`static`"),
    Option(
        "isolation-level",
        "Of overwrites: refused where others deleted rows meanwhile (`snapshot`), also where they added some (`serializable`).",
    ),
    Option("validate-from-snapshot-id", "Of overwrites: the snapshot that was read, after which others' commits are checked."),
    Option("output-spec-id", "Partition spec of the new files.", "the table's newest"),
    Option("output-sort-order-id", "Sort order of the new files, by which rows are sorted.", "the table's newest"),
    Option(SNAPSHOT_PROPERTY, "An entry of the snapshot's summary; the rest of the name is its key."),
)
WRITE_SETTINGS = (
    *(
        Option(_SESSION + option.name, f"The write option `{option.name.rstrip('.')}` for the session.", option.default)
        for option in WRITE_OPTIONS
        if option.name in SETTINGS
    ),
    Option("spark.wap.id", "Where `write.wap.enabled` is true: writes are staged under this id, to be published later."),
    Option("spark.wap.branch", "Where `write.wap.enabled` is true: writes go to this branch, and reads come from it."),
)
# From this likeness on (difflib's measure) an option is taken for a misspelt one of these: let be in silence, it would write other files than were asked for.
_LIKE = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What one write asks for beside its rows. `validate_from` is a snapshot's id; `branch` None where none is named."""

    form: WriteForm
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    branch: str | None = None
    overwrites_partitions: bool = False
    isolation_level: str | None = None
    validate_from: int | None = None
    merges_schema: bool = False
    checks_nullability: bool = True
    checks_ordering: bool = True


def write_options(options: Mapping[str, str], settings: Mapping[str, str], metadata: TableMetadata, table_name: str) -> WriteOptions:
    """The options understood; names in any case, those of others passed over. `settings` are the session's.

    Raises:
        InvalidInputError: a value is none of its option, the table has no such spec, sort order or snapshot, or a name is a misspelt one of these.
        UnsupportedFeatureError: an option of Java's that Icefloe does not have.
    """
    asked = _Asked({key.lower(): value for key, value in options.items()}, settings, table_name)
    asked.check_names()
    properties = asked.properties(metadata)
    spec, order = asked.spec(metadata), asked.sort_order(metadata)
    if not asked.flag("use-table-distribution-and-ordering"):
        properties[table_properties.DISTRIBUTION_MODE.name] = "none"
        order = UNSORTED_SORT_ORDER
    return WriteOptions(
        form=WriteForm(properties=properties, spec=spec, sort_order=order),
        snapshot_properties={**_named(settings, _SESSION + SNAPSHOT_PROPERTY), **_named(options, SNAPSHOT_PROPERTY)},
        branch=asked.given.get("branch"),
        overwrites_partitions=asked.choice("overwrite-mode", ("static", "dynamic")) == "dynamic",
        isolation_level=asked.choice("isolation-level", ("serializable", "snapshot")),
        validate_from=asked.snapshot(metadata),
        merges_schema=asked.flag("merge-schema"),
        checks_nullability=asked.flag("check-nullability"),
        checks_ordering=asked.flag("check-ordering"),
    )


def _named(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in given.items() if key.lower().startswith(prefix)}


@dataclass(frozen=True, slots=True)
class _Asked:
    given: Mapping[str, str]
    settings: Mapping[str, str]
    table_name: str

    def check_names(self) -> None:
        for name in self.given:
            if name.startswith(SNAPSHOT_PROPERTY):
                continue
            if name in REFUSED_OPTIONS:
                raise UnsupportedFeatureError(
                    f"the write option {name} is not supported", table=self.table_name, next_step=REFUSED_OPTIONS[name]
                )
            if name in _READS:
                raise self._wrong(name, self.given[name], "an option of writes, which go to a branch", "give branch, or leave it out")
            near = [] if name in KNOWN_OPTIONS or "." in name else get_close_matches(name.replace("_", "-"), KNOWN_OPTIONS, 1, _LIKE)
            if near:
                raise InvalidInputError(f"there is no write option {name!r}", table=self.table_name, next_step=f"write {near[0]!r}")

    def flag(self, name: str) -> bool:
        default, in_session = _FLAGS[name]
        text = self.given.get(name)
        if text is None and name == "merge-schema":
            text = self.given.get("mergeschema")
        if text is None and in_session:
            text = self.settings.get(_SESSION + name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise self._wrong(name, text, "true or false")
        return text.lower() == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str | None:
        text = self.given.get(name)
        if text is not None and text.lower() not in choices:
            raise self._wrong(name, text, f"one of {', '.join(choices)}")
        return text if text is None else text.lower()

    def whole(self, name: str) -> int | None:
        text = self.given.get(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise self._wrong(name, text, "a whole number") from None

    def properties(self, metadata: TableMetadata) -> dict[str, str]:
        """The table properties that hold for this write alone."""
        found = {}
        for name, (known, in_session) in _PROPERTIES.items():
            text = self._text(name, in_session=in_session)
            if text is not None:
                found[known.name] = self._checked(name, known, text)
        file_format = table_properties.DEFAULT_FILE_FORMAT.read({**metadata.properties, **found})
        for name, by_format in _COMPRESSION.items():
            text = self._text(name, in_session=True)
            if text is not None and file_format in by_format:
                found[by_format[file_format].name] = self._checked(name, by_format[file_format], text)
            elif name in self.given:
                raise self._wrong(name, self.given[name], f"an option of {file_format} files", "leave it out")
        return found

    def spec(self, metadata: TableMetadata) -> PartitionSpec | None:
        wanted = self.whole("output-spec-id")
        return None if wanted is None else self._among("output-spec-id", wanted, {one.spec_id: one for one in metadata.partition_specs})

    def sort_order(self, metadata: TableMetadata) -> SortOrder | None:
        wanted = self.whole("output-sort-order-id")
        return None if wanted is None else self._among("output-sort-order-id", wanted, {one.order_id: one for one in metadata.sort_orders})

    def snapshot(self, metadata: TableMetadata) -> int | None:
        wanted = self.whole("validate-from-snapshot-id")
        if wanted is not None:
            self._among("validate-from-snapshot-id", wanted, {one.snapshot_id: one for one in metadata.snapshots})
        return wanted

    def _among(self, name: str, wanted: int, known: Mapping[int, T]) -> T:
        if wanted not in known:
            raise self._wrong(name, str(wanted), f"one of the table's: {', '.join(map(str, sorted(known))) or 'it has none'}")
        return known[wanted]

    def _text(self, name: str, *, in_session: bool) -> str | None:
        return self.given.get(name) or (self.settings.get(_SESSION + name) if in_session else None)

    def _checked(self, name: str, known: Property[Any], text: str) -> str:
        try:
            known.read({known.name: text})
        except InvalidPropertyError as error:
            raise self._wrong(name, text, known.allowed) from error
        return text

    def _wrong(self, name: str, text: str, allowed: str, next_step: str = "") -> InvalidInputError:
        return InvalidInputError(
            f"the write option {name} is {text!r}, which is not {allowed}", table=self.table_name, next_step=next_step or f"give {allowed}"
        )
