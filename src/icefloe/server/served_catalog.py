"""`ServedCatalog`: what the operations of the server work with: the catalog, the locations that clients may name, and what the process keeps."""

from dataclasses import dataclass
from typing import Protocol

from icefloe.catalog.catalog import Catalog
from icefloe.catalog_store.identifier import Identifier
from icefloe.io.locations import LocationPolicy
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.server.load_table_result import TableBodies
from icefloe.server.metrics_reports import MetricsReports
from icefloe.server.request import Answer, Call
from icefloe.server.served_locations import ServedLocations


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCatalog:
    """The catalog behind the server, in one process.

    Attributes:
        catalog: The catalog.
        locations: The locations that clients may name.
        bodies: The responses for tables that were loaded last.
        reports: The metrics reports of clients.
    """

    catalog: Catalog
    locations: ServedLocations
    bodies: TableBodies
    reports: MetricsReports

    @classmethod
    def of(cls, catalog: Catalog) -> "ServedCatalog":
        """Return the served catalog of a catalog, whose properties have the strict policy of locations."""
        return cls(
            catalog=catalog,
            locations=ServedLocations(LocationPolicy.of(catalog.properties)),
            bodies=TableBodies(),
            reports=MetricsReports(),
        )

    def vends(self, call: Call) -> bool:  # noqa: ARG002
        """Return whether the response for a table depends on the request, since access to its files is part of it."""
        return False

    def access_to(self, metadata: TableMetadata, name: Identifier, call: Call) -> dict[str, object]:  # noqa: ARG002
        """Return what a response with a table has about access to its files. Spec: REST catalog, LoadTableResult."""
        return {"config": {}}


class Handler(Protocol):
    """The function of an operation."""

    def __call__(self, served: ServedCatalog, call: Call) -> Answer:
        """Return the response to a request. Raises `IcefloeError`, `RefusedRequest`."""
