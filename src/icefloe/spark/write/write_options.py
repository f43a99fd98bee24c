"""The options of a write, with the names that Spark users of Iceberg use: from the write itself, or else from the session's settings.

An option overrides a session setting, which overrides the table's property. `formatted_rows.py` and `sql_write.py` apply the options.
Spec: Writing Data Files; Commit Conflict Resolution and Retry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from icefloe.errors import InvalidInputError, InvalidPropertyError, UnsupportedFeatureError
from icefloe.option import Option
from icefloe.similar_names import similar_name
from icefloe.spark.write.formatted_rows import WriteForm
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.property_kinds import Property
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder

T = TypeVar("T")

SNAPSHOT_PROPERTY = "snapshot-property."
_SESSION = "spark.sql.iceberg."
_FLAGS = {
    "check-nullability": (True, True),
    "check-ordering": (True, True),
    "merge-schema": (False, True),
    "use-table-distribution-and-ordering": (True, False),
}
# Options that set a table property for one write, and whether the session has a setting with this name.
_PROPERTIES: Mapping[str, tuple[Property[Any], bool]] = {
    "write-format": (table_properties.DEFAULT_FILE_FORMAT, False),
    "target-file-size-bytes": (table_properties.TARGET_FILE_SIZE_BYTES, False),
    "distribution-mode": (table_properties.DISTRIBUTION_MODE, True),
    "fanout-enabled": (table_properties.FANOUT_ENABLED, False),
    "advisory-partition-size": (table_properties.ADVISORY_PARTITION_SIZE_BYTES, True),
    "shred-variants": (table_properties.PARQUET_SHRED_VARIANTS, True),
    "variant-inference-buffer-size": (table_properties.PARQUET_VARIANT_INFERENCE_ROWS, True),
}
# Options that set a property of the file format: its codec and compression level.
_COMPRESSION: Mapping[str, Mapping[str, Property[Any]]] = {
    "compression-codec": {
        "parquet": table_properties.PARQUET_CODEC,
        "avro": table_properties.AVRO_CODEC,
        "orc": table_properties.ORC_CODEC,
    },
    "compression-level": {"parquet": table_properties.PARQUET_COMPRESSION_LEVEL},
    "compression-strategy": {"orc": table_properties.ORC_COMPRESSION_STRATEGY},
}
_OTHERS = (
    "branch",
    "overwrite-mode",
    "isolation-level",
    "validate-from-snapshot-id",
    "output-spec-id",
    "output-sort-order-id",
    "key-columns",
)
# Options of Java's Iceberg that Icefloe does not support, with the next step; ignoring them would write different files than the user expects.
REFUSED_OPTIONS = {
    "rewritten-file-scan-task-set-id": "rewrite files by the procedures",
    "delete-format": "leave it out: deletes have the format of the table's version",
    "target-delete-file-size-bytes": "leave it out",
    "delete-granularity": "set the table property write.delete.granularity",
    "delete-mode": "set the table property write.delete.mode",
}
# Options of Java's Iceberg that have no effect, with the reason.
UNUSED_WRITE_OPTIONS = {"use-merge-append-for-streaming": "streams merge manifests as other appends do: commit.manifest-merge.enabled"}
_READS = ("snapshot-id", "as-of-timestamp", "tag")
KNOWN_OPTIONS = (*_FLAGS, *_PROPERTIES, *_COMPRESSION, *_OTHERS, *REFUSED_OPTIONS, *UNUSED_WRITE_OPTIONS, *_READS, "mergeschema")
# Session settings that are options of every write, without their prefix `spark.sql.iceberg.`.
SETTINGS = (
    *(name for name, (_, in_session) in _FLAGS.items() if in_session),
    *(name for name, (_, in_session) in _PROPERTIES.items() if in_session),
    *_COMPRESSION,
    SNAPSHOT_PROPERTY,
)
# Options and settings, for the configuration reference.
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
    Option("mergeSchema", "Another spelling of `merge-schema`.", "`false`"),
    Option("branch", "The branch that is written.", "`main`"),
    Option(
        "overwrite-mode",
        "What an overwrite of all rows replaces: everything (`static`), or the partitions of the written rows (`dynamic`).",
        "`static`",
    ),
    Option(
        "isolation-level",
        "For overwrites. `snapshot` refuses the commit if concurrent commits deleted matching rows, `serializable` also if they added some.",
    ),
    Option("validate-from-snapshot-id", "For overwrites: the snapshot that was read; commits after it are checked for conflicts."),
    Option("output-spec-id", "Partition spec of the new files.", "the table's newest"),
    Option("output-sort-order-id", "Sort order of the new files; the rows are sorted by it.", "the table's newest"),
    Option(
        "key-columns",
        "For streams with the output mode `update`: names of the key columns, separated by commas. A row replaces the row with the same key.",
        "the table's identifier fields",
        java=False,
    ),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The parsed options of a write.

    Attributes:
        form: the file properties, partition spec and sort order that differ from the table's own.
        snapshot_properties: entries for the snapshot's summary.
        branch: the branch to write; None if the options do not have it.
        overwrites_partitions: True if an overwrite of all rows replaces only the partitions of the written rows.
        isolation_level: `serializable` or `snapshot`; None if an overwrite checks no conflicts with other writers.
        validate_from: id of the snapshot after which commits are checked for conflicts; None to check all snapshots of the branch.
        merges_schema: True to add columns that the table lacks.
        checks_nullability: True to refuse nullable columns of rows for required columns of the table, before the job.
        checks_ordering: True to refuse columns whose order differs from the table's.
        key_columns: names of the key columns of an upsert by a stream; None for the table's identifier fields.
    """

    form: WriteForm
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    branch: str | None = None
    overwrites_partitions: bool = False
    isolation_level: str | None = None
    validate_from: int | None = None
    merges_schema: bool = False
    checks_nullability: bool = True
    checks_ordering: bool = True
    key_columns: tuple[str, ...] | None = None


def write_options(options: Mapping[str, str], settings: Mapping[str, str], metadata: TableMetadata, table_name: str) -> WriteOptions:
    """Parse the options of a write. Names may have any case; options of other data sources are ignored.

    Args:
        options: the options of the write.
        settings: the session's settings, by full name.
        metadata: the table's metadata, for specs, sort orders and snapshots.
        table_name: the table's name, for errors.

    Raises:
        InvalidInputError: a value is not allowed; the table does not have the spec, sort order or snapshot; or an option seems misspelt.
        UnsupportedFeatureError: Icefloe does not support an option of Java's Iceberg.
    """
    reader = _OptionReader({key.lower(): value for key, value in options.items()}, settings, table_name)
    reader.check_names()
    properties = reader.properties(metadata)
    spec, order = reader.spec(metadata), reader.sort_order(metadata)
    if not reader.flag("use-table-distribution-and-ordering"):
        properties[table_properties.DISTRIBUTION_MODE.name] = "none"
        order = UNSORTED_SORT_ORDER
    return WriteOptions(
        form=WriteForm(properties=properties, spec=spec, sort_order=order),
        snapshot_properties={**_with_prefix(settings, _SESSION + SNAPSHOT_PROPERTY), **_with_prefix(options, SNAPSHOT_PROPERTY)},
        branch=reader.options.get("branch"),
        overwrites_partitions=reader.choice("overwrite-mode", ("static", "dynamic")) == "dynamic",
        isolation_level=reader.choice("isolation-level", ("serializable", "snapshot")),
        validate_from=reader.snapshot(metadata),
        merges_schema=reader.flag("merge-schema"),
        checks_nullability=reader.flag("check-nullability"),
        checks_ordering=reader.flag("check-ordering"),
        key_columns=reader.names("key-columns"),
    )


def _with_prefix(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in options.items() if key.lower().startswith(prefix)}


@dataclass(frozen=True, slots=True)
class _OptionReader:
    options: Mapping[str, str]
    settings: Mapping[str, str]
    table_name: str

    def check_names(self) -> None:
        for name in self.options:
            if name.startswith(SNAPSHOT_PROPERTY):
                continue
            if name in REFUSED_OPTIONS:
                raise UnsupportedFeatureError(
                    f"the write option {name} is not supported", table=self.table_name, next_step=REFUSED_OPTIONS[name]
                )
            if name in _READS:
                raise self._wrong(name, self.options[name], "an option of writes, but of reads", "give the option branch, or leave it out")
            # Other names with a dot are options of other data sources.
            _, dot, rest = name.partition(".")
            similar = similar_name(name, (SNAPSHOT_PROPERTY,) if dot else KNOWN_OPTIONS)
            if similar is not None:
                raise InvalidInputError(f"there is no write option {name!r}", table=self.table_name, next_step=f"write {similar + rest!r}")

    def flag(self, name: str) -> bool:
        default, in_session = _FLAGS[name]
        text = self.options.get(name)
        if text is None and name == "merge-schema":
            text = self.options.get("mergeschema")
        if text is None and in_session:
            text = self.settings.get(_SESSION + name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise self._wrong(name, text, "true or false")
        return text.lower() == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str | None:
        text = self.options.get(name)
        if text is not None and text.lower() not in choices:
            raise self._wrong(name, text, f"one of {', '.join(choices)}")
        return text if text is None else text.lower()

    def names(self, name: str) -> tuple[str, ...] | None:
        text = self.options.get(name)
        if text is None:
            return None
        names = tuple(part.strip() for part in text.split(","))
        if "" in names:
            raise self._wrong(name, text, "a list of columns, such as id,region")
        return names

    def integer(self, name: str) -> int | None:
        text = self.options.get(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise self._wrong(name, text, "a whole number") from None

    def properties(self, metadata: TableMetadata) -> dict[str, str]:
        """Return the table properties that the options and settings set for this write."""
        properties = {}
        for name, (table_property, in_session) in _PROPERTIES.items():
            text = self._text(name, in_session=in_session)
            if text is not None:
                properties[table_property.name] = self._check(name, table_property, text)
        file_format = table_properties.DEFAULT_FILE_FORMAT.read({**metadata.properties, **properties})
        for name, by_format in _COMPRESSION.items():
            text = self._text(name, in_session=True)
            if text is not None and file_format in by_format:
                properties[by_format[file_format].name] = self._check(name, by_format[file_format], text)
            elif name in self.options:
                raise self._wrong(name, self.options[name], f"an option of {file_format} files", "leave it out")
        return properties

    def spec(self, metadata: TableMetadata) -> PartitionSpec | None:
        spec_id, specs = self.integer("output-spec-id"), {spec.spec_id: spec for spec in metadata.partition_specs}
        return None if spec_id is None else self._among("output-spec-id", spec_id, specs)

    def sort_order(self, metadata: TableMetadata) -> SortOrder | None:
        order_id, orders = self.integer("output-sort-order-id"), {order.order_id: order for order in metadata.sort_orders}
        return None if order_id is None else self._among("output-sort-order-id", order_id, orders)

    def snapshot(self, metadata: TableMetadata) -> int | None:
        snapshot_id = self.integer("validate-from-snapshot-id")
        if snapshot_id is not None:
            self._among("validate-from-snapshot-id", snapshot_id, {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots})
        return snapshot_id

    def _among(self, name: str, value: int, by_id: Mapping[int, T]) -> T:
        if value not in by_id:
            raise self._wrong(name, str(value), f"one of the table's: {', '.join(map(str, sorted(by_id))) or 'it has none'}")
        return by_id[value]

    def _text(self, name: str, *, in_session: bool) -> str | None:
        return self.options.get(name) or (self.settings.get(_SESSION + name) if in_session else None)

    def _check(self, name: str, table_property: Property[Any], text: str) -> str:
        try:
            table_property.read({table_property.name: text})
        except InvalidPropertyError as error:
            raise self._wrong(name, text, table_property.allowed) from error
        return text

    def _wrong(self, name: str, text: str, allowed: str, next_step: str = "") -> InvalidInputError:
        return InvalidInputError(
            f"the write option {name} is {text!r}, which is not {allowed}", table=self.table_name, next_step=next_step or f"give {allowed}"
        )
