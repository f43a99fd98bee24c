"""A Glue in memory, for tests of what an emulator cannot be made to do and for those that need none."""

from collections.abc import Callable
from typing import Any

from icefloe.stores import glue_client
from icefloe.stores.glue_client import GlueClient, GlueError

LOCATION = "s3://b/v1"


def parameters(location: str) -> dict[str, str]:
    return {"table_type": "ICEBERG", "metadata_location": location}


class Glue(GlueClient):
    """Tables in memory, by their names alone, with their versions. `before` and `after` a request that changes a table a test can interfere."""

    def __init__(self) -> None:
        super().__init__({})
        self.tables: dict[str, Any] = {}
        self.sent_once: list[str] = []
        self.before: Callable[[str], None] = lambda _: None
        self.after: Callable[[str], None] = lambda _: None
        self.put("t", LOCATION)

    def put(self, name: str, location: str) -> None:
        """Create an Iceberg table, as another writer."""
        self.tables[name] = {
            "Name": name,
            "VersionId": "0",
            "Parameters": parameters(location),
        }

    def commit(self, location: str) -> None:
        """Commit to the table, as another writer."""
        table = self.tables["t"]
        parameters = {**table["Parameters"], "metadata_location": location}
        self.tables["t"] = {**table, "VersionId": str(int(table["VersionId"]) + 1), "Parameters": parameters}

    def locations(self) -> dict[str, str | None]:
        """Return the metadata location of each table."""
        return {name: table["Parameters"].get("metadata_location") for name, table in self.tables.items()}

    def call(self, operation: str, **arguments: Any) -> Any:
        if operation == "get_database":
            return {"Database": {"Name": arguments["Name"]}}
        if operation == "get_tables":
            return {"TableList": list(self.tables.values())}
        self.before(operation)
        result = self._carry_out(operation, arguments)
        self.after(operation)
        return result

    def call_once(self, operation: str, **arguments: Any) -> Any:
        self.sent_once.append(operation)
        return self.call(operation, **arguments)

    def _carry_out(self, operation: str, arguments: Any) -> Any:
        name = arguments["Name"] if "Name" in arguments else arguments["TableInput"]["Name"]
        if operation == "create_table":
            if name in self.tables:
                raise GlueError(glue_client.EXISTS, "exists", status=400)
            self.tables[name] = {**arguments["TableInput"], "VersionId": "0"}
            return {}
        if name not in self.tables:
            raise GlueError(glue_client.MISSING, "not found", status=400)
        if operation == "update_table":
            version = self.tables[name]["VersionId"]
            if arguments["VersionId"] != version:
                raise GlueError(glue_client.MODIFIED, "modified", status=400)
            self.tables[name] = {**arguments["TableInput"], "VersionId": str(int(version) + 1)}
        if operation == "delete_table":
            del self.tables[name]
        return {"Table": self.tables.get(name)}
