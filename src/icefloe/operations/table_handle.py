"""`TableHandle`: a table's entry in a catalog store and the storage of its files; functions for the locations of its files.

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
        """Return milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000


class RandomIds:
    """The implementation of the port `IdSource` with random ids."""

    def uuid(self) -> str:
        """Return a version 4 UUID."""
        return str(uuid.uuid4())

    def snapshot_id(self) -> int:
        """Return a snapshot id, folded from a UUID as Java does."""
        drawn = uuid.uuid4().int
        return ((drawn >> 64) ^ drawn) & 0x7FFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHandle:
    """A table's name in a catalog store, and the ports that its operations use."""

    identifier: Identifier
    store: CatalogStore
    io: FileIO
    policy: LocationPolicy = field(default_factory=LocationPolicy)
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)
    planner: ServerPlanner | None = None  # plans scans in the catalog's server; None if this process plans them

    def reporter(self) -> MetricsReporter | None:
        """Return the sender of the table's metrics reports to its catalog; None if the catalog does not accept reports."""
        return self.store.reporter(self.identifier) if isinstance(self.store, TakesReports) else None

    @property
    def table_name(self) -> str:
        """The table's name as `catalog.namespace.table`, for messages."""
        return f"{self.store.name}.{dotted(self.identifier)}"


def metadata_folder(metadata: TableMetadata) -> str:
    """Return the folder of new metadata files: table metadata, manifest lists and manifests."""
    return _folder(metadata, table_properties.METADATA_PATH.read(metadata.properties) or "metadata")


def data_folder(metadata: TableMetadata) -> str:
    """Return the folder of new data files; with `write.object-storage.enabled` the folder that contains the hash folders."""
    paths = [table_properties.DATA_PATH, table_properties.FOLDER_STORAGE_PATH]
    if table_properties.OBJECT_STORE_ENABLED.read(metadata.properties):
        paths.insert(1, table_properties.OBJECT_STORE_PATH)
    return _folder(metadata, next((path for path in (setting.read(metadata.properties) for setting in paths) if path), "data"))


def _folder(metadata: TableMetadata, path: str) -> str:
    """Resolve a relative path under the table's location. Spec: Appendix F, Path Construction."""
    return join(metadata.location, path) if is_relative(path) else path


def new_metadata_location(ids: IdSource, metadata: TableMetadata, *, previous_location: str | None) -> str:
    """Return a new location for the next metadata file."""
    version = _next_version(previous_location)
    return f"{metadata_folder(metadata)}/{metadata_file_name(version, ids.uuid(), gzip=_is_gzip(metadata))}"


def metadata_content(metadata: TableMetadata) -> list[Part]:
    """Return the metadata file in parts, compressed according to the table's properties."""
    return table_metadata_parts(metadata, gzip=_is_gzip(metadata))


def _is_gzip(metadata: TableMetadata) -> bool:
    return table_properties.METADATA_CODEC.read(metadata.properties) == "gzip"


def _next_version(previous_location: str | None) -> int:
    """Return the version after that in the file's name; 0 for a table's first file, and if the name has no version."""
    previous = metadata_version(previous_location) if previous_location else None
    return 0 if previous is None else previous + 1
