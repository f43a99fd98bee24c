"""Requests to S3 that a catalog signs: a hook in s3fs, which has no keys and signs nothing itself.

Arrow's own client of S3 has no such hook. Spec: REST catalog, RemoteSignRequest.
"""

import asyncio
from typing import Any

from icefloe.spec.ports import StorageAccess

# Headers that the library or a proxy sets after the signature.
_UNSIGNED = frozenset({"user-agent", "expect", "accept-encoding", "connection"})
# The place of the hook among those of the library, so that it is registered once.
_UNIQUE_ID = "icefloe-remote-signing"


def with_remote_signing(store: Any, access: StorageAccess) -> Any:
    """Return an anonymous file system of s3fs whose requests a catalog signs.

    Args:
        store: The file system.
        access: Signs the requests.
    """

    # In a thread: the event loop is one for all requests of the process, which would wait for each signature in turn.
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
