"""`EncryptedKey`: a key of table encryption, kept in the table's metadata in encrypted form. Nothing here encrypts or decrypts.

Spec: Encryption Keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.kernel.metadata.raw_entries import EntryKind
from icefloe.kernel.schema.json_shape import Key, a_string, object_problems, refuse, strings_by_name

_KEYS = (
    Key("key-id", a_string),
    # The example in Appendix C has `key-metadata`; the table of fields, Java and REST have this name.
    Key("encrypted-key-metadata", a_string),
    Key("encrypted-by-id", a_string, required=False),
    Key("properties", strings_by_name, required=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptedKey:
    """`encrypted_key_metadata` is base64 text whose meaning the key service knows; `encrypted_by_id` names the key it is encrypted with."""

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def encrypted_key_to_json(key: EncryptedKey) -> dict[str, Any]:
    """A key as a JSON object. Spec: Encryption Keys."""
    found: dict[str, Any] = {"key-id": key.key_id, "encrypted-key-metadata": key.encrypted_key_metadata}
    if key.encrypted_by_id is not None:
        found["encrypted-by-id"] = key.encrypted_by_id
    if key.properties:
        found["properties"] = dict(key.properties)
    return found


def encrypted_key_from_json(value: Any, path: str = "$") -> EncryptedKey:
    """The key that parsed JSON describes. Raises `MetadataFormatError` with every problem, named by JSON path from `path` on."""
    refuse(list(object_problems(value, path, _KEYS)), "the encryption key")
    return EncryptedKey(
        key_id=value["key-id"],
        encrypted_key_metadata=value["encrypted-key-metadata"],
        encrypted_by_id=value.get("encrypted-by-id"),
        properties=value.get("properties") or {},
    )


# Keys are named by text, and are few: they are found by looking at each.
ENCRYPTION_KEYS = EntryKind("encryption-keys", encrypted_key_from_json, encrypted_key_to_json)
