"""`TableHandle`: a table's entry in a catalog store and the storage of its files; and functions that return the locations of new files of a table.

Spec: Metastore Tables; Appendix F, Path Construction.
"""

import time
import uuid
from dataclasses import dataclass, field

from icefloe.io.locations import LocationPolicy, is_relative, join
from icefloe.scan.server_plan import ServerPlanner
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.metadata_writer import table_metadata_parts
from icefloe.spec.metadata.naming import metadata_file_name, metadata_version
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import Clock, FileIO, IdSource, Part
from icefloe.stores.catalog_store import CatalogStore
from icefloe.stores.metrics_report import MetricsReporter, TakesReports


class SystemClock:
    """The implementation of the port `Clock` with the system's clock."""

    def now_ms(self) -> int:
        """Return the current time in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000


class RandomIds:
    """The implementation of the port `IdSource` with random ids."""

    def uuid(self) -> str:
        """Return a version 4 UUID."""
        return str(uuid.uuid4())

    def snapshot_id(self) -> int:
        """Return a new snapshot id: a random UUID, whose two halves are combined to a positive number of 63 bits as in Java."""
        drawn = uuid.uuid4().int
        return ((drawn >> 64) ^ drawn) & 0x7FFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHandle:
    """A table's entry in a catalog store, and the ports (storage, clock, ids) that operations on the table use."""

    identifier: Identifier
    store: CatalogStore
    io: FileIO
    policy: LocationPolicy = field(default_factory=LocationPolicy)
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)
    planner: ServerPlanner | None = None  # plans scans in the catalog's server; None if this process plans them
    shown_catalog: str | None = None  # the name of the catalog in messages where it is not its own, as in a session to which it is attached

    def reporter(self) -> MetricsReporter | None:
        """Return the sender of the table's metrics reports to its catalog; None if the catalog does not accept reports."""
        return self.store.reporter(self.identifier) if isinstance(self.store, TakesReports) else None

    @property
    def table_name(self) -> str:
        """The table's name as `catalog.namespace.table`, for messages."""
        return f"{self.shown_catalog or self.store.name}.{dotted(self.identifier)}"


def metadata_folder(metadata: TableMetadata) -> str:
    """Return the folder of new metadata files: table metadata, manifest lists and manifests."""
    return _folder(metadata, table_properties.METADATA_PATH.read(metadata.properties) or "metadata")


def data_folder(metadata: TableMetadata) -> str:
    """Return the folder of new data files; with `write.object-storage.enabled` the folder in which files are distributed over folders with hashes as names."""
    paths = [table_properties.DATA_PATH, table_properties.FOLDER_STORAGE_PATH]
    if table_properties.OBJECT_STORE_ENABLED.read(metadata.properties):
        paths.insert(1, table_properties.OBJECT_STORE_PATH)
    return _folder(metadata, next((path for path in (setting.read(metadata.properties) for setting in paths) if path), "data"))


def _folder(metadata: TableMetadata, path: str) -> str:
    """Resolve a relative path under the table's location. Spec: Appendix F, Path Construction."""
    return join(metadata.location, path) if is_relative(path) else path


def new_metadata_location(ids: IdSource, metadata: TableMetadata, *, previous_location: str | None) -> str:
    """Return the location of the next metadata file: its version follows that of `previous_location`, and its name contains a new UUID."""
    version = _next_version(previous_location)
    return f"{metadata_folder(metadata)}/{metadata_file_name(version, ids.uuid(), gzip=_is_gzip(metadata))}"


def metadata_content(metadata: TableMetadata) -> list[Part]:
    """Return the content of a metadata file as a list of parts to write one after another, compressed as the table's properties require."""
    return table_metadata_parts(metadata, gzip=_is_gzip(metadata))


def _is_gzip(metadata: TableMetadata) -> bool:
    return table_properties.METADATA_CODEC.read(metadata.properties) == "gzip"


def _next_version(previous_location: str | None) -> int:
    """Return the version in the name of the previous metadata file plus 1; 0 if there is no previous file, or its name has no version."""
    previous = metadata_version(previous_location) if previous_location else None
    return 0 if previous is None else previous + 1
