"""moto's server with the condition of Glue's UpdateTable, which moto leaves out: `VersionId` must be the table's version. Arguments: a port.

`python -m tests.glue_server PORT`. A table named `denied` refuses every update as Lake Formation does.
"""

import json
import sys
from threading import Lock

from moto.core.exceptions import JsonRESTError
from moto.glue.models import GlueBackend
from moto.glue.responses import GlueResponse
from moto.server import main

_UPDATES = Lock()
_update_table = GlueResponse.update_table
_delete_table = GlueBackend.delete_table


def update_table(self: GlueResponse) -> object:
    """Update a table if its version is the one of the request."""
    body = json.loads(self.body)
    with _UPDATES:
        table = self.glue_backend.get_table(body["DatabaseName"], body["TableInput"]["Name"])
        if body["TableInput"]["Name"] == "denied":
            raise JsonRESTError("AccessDeniedException", "Insufficient Lake Formation permission(s): Required Alter on denied")
        if body.get("VersionId") not in (None, str(table.as_dict()["VersionId"])):
            raise JsonRESTError("ConcurrentModificationException", "Update table failed due to concurrent modifications.")
        return _update_table(self)


GlueResponse.update_table = update_table

if __name__ == "__main__":
    main(["-H", "127.0.0.1", "-p", sys.argv[1]])
