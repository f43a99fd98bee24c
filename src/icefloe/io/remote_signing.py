"""Requests to S3 that a catalog signs: a hook in s3fs, which itself has no keys and does not sign.

Arrow's own client of S3 has no such hook. Spec: REST catalog, RemoteSignRequest.
"""

from typing import TYPE_CHECKING, Any

from icefloe.lazy_imports import lazy_module
from icefloe.spec.ports import StorageAccess

if TYPE_CHECKING:
    import asyncio
else:  # it takes 7 MB of memory, with the TLS library
    asyncio = lazy_module("asyncio")

# Headers that the library or a proxy sets after signing.
_UNSIGNED = frozenset({"user-agent", "expect", "accept-encoding", "connection"})
# The id of the hook in botocore, which prevents a second registration.
_UNIQUE_ID = "icefloe-remote-signing"


def with_remote_signing(store: Any, access: StorageAccess) -> Any:
    """Return an anonymous s3fs file system whose requests are signed by a catalog.

    Args:
        store: The file system.
        access: The access to the table's files, which signs each request by calling the catalog.
    """

    # In a thread, because all requests of the process share one event loop, which would be blocked during each signature.
    async def sign(request: Any, operation_name: str = "", region_name: str = "", **_: Any) -> None:
        headers = {name: text if isinstance(text, str) else text.decode("latin-1") for name, text in request.headers.items()}
        sent = {name: text for name, text in headers.items() if name.lower() not in _UNSIGNED}
        body = request.body if operation_name == "DeleteObjects" else None
        text = body.decode() if isinstance(body, bytes | bytearray) else body
        uri, signed = await asyncio.to_thread(access.sign, request.method, request.url, region_name or "us-east-1", sent, text)
        request.url = uri
        for name, value in signed.items():
            del request.headers[name]
            request.headers[name] = value

    store.s3.meta.events.register_last("before-sign.s3", sign, unique_id=_UNIQUE_ID)
    return store
