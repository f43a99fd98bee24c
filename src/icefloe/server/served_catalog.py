"""`ServedCatalog`: what the operations of the server need: the catalog, the locations that clients may name, and the caches of the process."""

from dataclasses import dataclass
from typing import Any, Protocol

from icefloe.catalog.catalog import Catalog
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.locations import ALLOWED_LOCATIONS, WAREHOUSE, LocationPolicy, place_of_folder
from icefloe.operations.own_location import is_configured
from icefloe.server.credential_vending import CredentialVending
from icefloe.server.load_table_result import TableBodies
from icefloe.server.metrics_reports import MetricsReports
from icefloe.server.planned_scans import PlannedScans
from icefloe.server.request import Answer, Call
from icefloe.server.rest_operations import Role
from icefloe.server.served_locations import NAMESPACE_LOCATION, ServedLocations
from icefloe.server.server_settings import ServerSettings
from icefloe.server.signed_text import SignedText
from icefloe.spec.identifier import Identifier
from icefloe.spec.ports import FileIO
from icefloe.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCatalog:
    """The catalog behind the server, in one process.

    Attributes:
        catalog: The catalog.
        policy: The policy for the locations of the catalog's tables.
        bodies: The cache of recently loaded tables' metadata.
        reports: The metrics reports of clients.
        plans: The recently planned scans.
        plan_ids: Signs and checks the ids of plans.
        storage: Gives clients access to files.
        plan_wait_s: Seconds that a client waits for a plan before it must poll.
        longest_wait_s: Seconds that a client waits for a plan for which it cannot poll.
        files_of_page: The number of files in a response of planning.
        filter_values: The most literals and conditions of a planned filter.
    """

    catalog: Catalog
    policy: LocationPolicy
    bodies: TableBodies
    reports: MetricsReports
    plans: PlannedScans
    plan_ids: SignedText
    storage: CredentialVending
    plan_wait_s: float = 20.0
    longest_wait_s: float = 100.0
    files_of_page: int = 10_000
    filter_values: int = 100_000

    @classmethod
    def of(cls, settings: ServerSettings) -> "ServedCatalog":
        """Return the served catalog for the settings of a server."""
        catalog = settings.catalog
        return cls(
            catalog=catalog,
            policy=catalog.location_policy(),
            bodies=TableBodies(),
            reports=MetricsReports(),
            plans=PlannedScans(),
            plan_ids=SignedText(settings.key, "plan"),
            storage=CredentialVending(catalog.properties, settings.delegation),
            plan_wait_s=settings.limits.plan_wait_s,
            files_of_page=settings.limits.files_of_page,
            filter_values=settings.limits.filter_values,
        )

    def locations(self, call: Call, namespace: Identifier) -> ServedLocations:
        """Return the folders that the user of a request may name for tables of a namespace.

        Raises:
            NoSuchNamespaceError: The namespace does not exist.
        """
        if call.access.role_in(()) >= Role.ADMIN:
            return ServedLocations.of_catalog(self.policy)
        location = self.catalog.load_namespace_properties(namespace).get(NAMESPACE_LOCATION)
        return ServedLocations.of_namespace(self.catalog.warehouse_folder(namespace), location)

    def file_io(self, call: Call, table: Table) -> FileIO:
        """Return the storage with which a table's files are read for the user of a request.

        A user who may not read the whole catalog is limited to the table's own folder and the folder of the namespace. Clients write manifests themselves, and
        these can name any file: without the limit, a scan would show the files of tables that the user may not read.
        """
        folder = self.catalog.warehouse_folder(table.name()[:-1])
        if call.access.role_in(()) >= Role.READ or folder is None:
            return table.io
        properties = {**self.catalog.properties, WAREHOUSE: folder, ALLOWED_LOCATIONS: ""}
        return load_file_io(properties, table.metadata_location)

    def access_to(self, location: str, name: Identifier, call: Call) -> dict[str, Any]:
        """Return the keys of a table's response that give access to its files. Spec: REST catalog, LoadTableResult.

        Args:
            location: The folder of the table.
            name: The name of the table.
            call: The request.
        """
        place = place_of_folder(location)
        if place is None or not is_configured(self.policy, place):  # access is given only to folders that the configuration names
            return {"config": {}}
        return self.storage.access_to(location, name, call)


class Handler(Protocol):
    """The function that implements an operation."""

    def __call__(self, served: ServedCatalog, call: Call) -> Answer:
        """Return the response to a request.

        Args:
            served: The catalog.
            call: The request.

        Raises:
            IcefloeError: The operation failed.
            RefusedRequest: The request is refused.
        """
