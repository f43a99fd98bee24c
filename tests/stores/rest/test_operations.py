"""The 35 operations of the protocol: the client uses each of them, under the paths that the server has for them."""

from pathlib import Path

import icefloe.stores.rest as package
from icefloe.server.rest_operations import OPERATIONS
from icefloe.stores.rest.auth_sessions import TOKENS_PATH
from icefloe.stores.rest.rest_paths import Endpoint


def test_the_client_has_every_operation_of_the_server() -> None:
    listed = {operation.endpoint for operation in OPERATIONS if operation.is_listed}
    assert {str(endpoint) for endpoint in Endpoint} == listed
    others = {operation.path for operation in OPERATIONS if not operation.is_listed}
    assert others == {"/v1/config", f"/{TOKENS_PATH}"}
    assert len(OPERATIONS) == 35


def test_the_client_sends_every_operation() -> None:
    sources = "".join(path.read_text() for path in Path(str(package.__file__)).parent.glob("*.py") if path.name != "rest_paths.py")
    assert [endpoint.name for endpoint in Endpoint if f"Endpoint.{endpoint.name}" not in sources] == []
    assert '"v1/config"' in sources
