"""The operations on the storage of a table: credentials and signatures. Spec: REST catalog, loadCredentials, signRequest."""

from icefloe.io.locations import LocationScope, folders_of, place_of_folder
from icefloe.operations.own_location import is_configured
from icefloe.server.credential_vending import may_write
from icefloe.server.error_response import RefusedRequest, bad_request, forbidden
from icefloe.server.request import Answer, Call
from icefloe.server.request_signing import SignRequest, check_request, sign
from icefloe.server.served_catalog import ServedCatalog
from icefloe.spec.identifier import dotted
from icefloe.spec.metadata.moved_metadata import PATH_PROPERTIES
from icefloe.spec.schema.json_shape import Key, a_string, an_object
from icefloe.table.table import Table


def load_credentials(served: ServedCatalog, call: Call) -> Answer:
    """Return temporary credentials for a table's files; an empty list if the server does not vend credentials. Spec: REST catalog, loadCredentials."""
    table = served.catalog.load_table(call.table())
    if place_of_folder(table.metadata.location) not in _folders(served, table).folders:
        raise _outside(table)
    access = served.storage.vend(table.metadata.location, table.name(), call)
    return Answer(content={"storage-credentials": access})


def sign_request(served: ServedCatalog, call: Call) -> Answer:
    """Sign one request to S3 for a file of a table. Spec: REST catalog, signRequest."""
    content = call.json_object(
        Key("region", a_string),
        Key("uri", a_string),
        Key("method", a_string),
        Key("headers", an_object),
        Key("body", a_string, required=False),
        Key("provider", a_string, required=False),
    )
    if not served.storage.delegation.signs_requests:
        raise forbidden("the server signs no requests; its operator can start it with --remote-signing")
    if content.get("provider") not in (None, "s3"):
        raise bad_request(f"the provider is {content['provider']!r}; the server signs requests to s3")
    headers = {name: values if isinstance(values, list) else [values] for name, values in content["headers"].items()}
    if not all(isinstance(text, str) for values in headers.values() for text in values):
        raise bad_request("a header has a value that is no text")
    request = SignRequest(
        method=content["method"].upper(), uri=content["uri"], region=content["region"], headers=headers, body=content.get("body")
    )
    table = served.catalog.load_table(call.table())
    writes = may_write(call, table.name())
    check_request(request, _folders(served, table), served.storage.properties.get("s3.endpoint"), may_write=writes)
    cacheable = request.method in ("GET", "HEAD")
    return Answer(
        content={"uri": request.uri, "headers": sign(request, served.storage.properties)},
        headers={"Cache-Control": "private" if cacheable else "no-cache"},
    )


def _folders(served: ServedCatalog, table: Table) -> LocationScope:
    """Return the folders of a table that the configuration allows, out of its location and the folders in its properties.

    Raises:
        RefusedRequest: None of its folders is allowed.
    """
    metadata = table.metadata
    locations = [metadata.location, *(metadata.properties[name] for name in PATH_PROPERTIES if metadata.properties.get(name))]
    folders = tuple(place for place in folders_of(locations) if not place.is_root and is_configured(served.policy, place))
    if not folders:
        raise _outside(table)
    return LocationScope(folders)


def _outside(table: Table) -> RefusedRequest:
    return forbidden(f"{dotted(table.name())} is outside the warehouse, so no access to its files is given")
