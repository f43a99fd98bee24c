"""`EncryptedKey`: a key of table encryption, which is encrypted itself in the table's metadata. This module does not encrypt or decrypt.

Spec: Encryption Keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.spec.metadata.raw_entries import EntryKind
from icefloe.spec.schema.json_shape import Key, a_string, object_problems, refuse, strings_by_name

_KEYS = (
    Key("key-id", a_string),
    # The example in Appendix C calls it `key-metadata`; the specification's table of fields, Java and the REST protocol use this name.
    Key("encrypted-key-metadata", a_string),
    Key("encrypted-by-id", a_string, required=False),
    Key("properties", strings_by_name, required=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptedKey:
    """A key of table encryption, which is stored encrypted.

    Attributes:
        key_id: Id of the key.
        encrypted_key_metadata: Base64 text, opaque to Icefloe; the key service reads it.
        encrypted_by_id: Id of the key that this key is encrypted with.
        properties: Further properties for the key service.
    """

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def encrypted_key_to_json(key: EncryptedKey) -> dict[str, Any]:
    """Return a key as a JSON object. Spec: Encryption Keys."""
    key_json: dict[str, Any] = {"key-id": key.key_id, "encrypted-key-metadata": key.encrypted_key_metadata}
    if key.encrypted_by_id is not None:
        key_json["encrypted-by-id"] = key.encrypted_by_id
    if key.properties:
        key_json["properties"] = dict(key.properties)
    return key_json


def encrypted_key_from_json(value: Any, path: str = "$") -> EncryptedKey:
    """Return the key that parsed JSON describes.

    Raises:
        MetadataFormatError: every problem, with its JSON path below `path`.
    """
    refuse(list(object_problems(value, path, _KEYS)), "the encryption key")
    return EncryptedKey(
        key_id=value["key-id"],
        encrypted_key_metadata=value["encrypted-key-metadata"],
        encrypted_by_id=value.get("encrypted-by-id"),
        properties=value.get("properties") or {},
    )


# There is no index by id, because ids of keys are text, and a table has few keys: `TableMetadata.encryption_key` searches the list.
ENCRYPTION_KEYS = EntryKind("encryption-keys", encrypted_key_from_json, encrypted_key_to_json)
