"""`SignedText`: values that clients get as opaque, signed text and send back. The server accepts only text that it signed, so that it stores no values.

The signature is HMAC with SHA-256 of the standard library, compared in constant time.
"""

import base64
import binascii
import hashlib
import hmac
import zlib
from typing import Any

import msgspec

_SIGNATURE_BYTES = 16


class SignedText:
    """Converts values to signed text for one purpose, and back. Text that was signed for another purpose or with another key is refused."""

    def __init__(self, key: bytes, purpose: str) -> None:
        """Prepare to sign.

        Args:
            key: The key of the server.
            purpose: The name of the purpose.
        """
        self._key = key
        self._purpose = purpose.encode() + b"\0"

    def seal(self, content: Any) -> str:
        """Return a JSON value as signed text for URLs and headers."""
        packed = zlib.compress(msgspec.json.encode(content, order="deterministic"), 9)
        return base64.urlsafe_b64encode(self._signature(packed) + packed).rstrip(b"=").decode()

    def open(self, text: str) -> Any:
        """Return the value in a signed text; None if the text was not signed with this key for this purpose."""
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            return None
        signature, packed = sealed[:_SIGNATURE_BYTES], sealed[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(packed)):
            return None
        return msgspec.json.decode(zlib.decompress(packed))  # its size is not limited, because the server signed it

    def _signature(self, packed: bytes) -> bytes:
        return hmac.new(self._key, self._purpose + packed, hashlib.sha256).digest()[:_SIGNATURE_BYTES]
