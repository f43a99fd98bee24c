"""The server's own keys to S3, with which it signs requests and calls the token service. They are the keys with which its catalog opens files.

They come from the catalog's properties, under every name that they can have (`s3.access-key-id`, `client.access-key-id`, `s3.profile-name`), otherwise from
this machine.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.errors import StorageUnavailableError
from icefloe.io.object_store_options import S3, fsspec_options
from icefloe.optional_packages import optional_module


def session_of(properties: Mapping[str, str], feature: str) -> Any:
    """Return a session of botocore with the profile and the keys of a catalog's properties.

    Args:
        properties: The properties of the catalog.
        feature: The feature that needs the session, for the error about a missing package.

    Raises:
        NotInstalledError: The package botocore is missing.
    """
    options = fsspec_options(S3, properties)
    session = optional_module("botocore.session", extra="s3", feature=feature).Session(profile=options.get("profile"))
    if options.get("key"):
        session.set_credentials(options["key"], options.get("secret", ""), options.get("token"))
    return session


def keys_of(properties: Mapping[str, str], feature: str) -> Any:
    """Return the keys in a catalog's properties, otherwise the keys of this machine.

    Args:
        properties: The properties of the catalog.
        feature: The feature that needs the keys, for the error about a missing package.

    Raises:
        NotInstalledError: The package botocore is missing.
        StorageUnavailableError: There are no keys.
    """
    session = session_of(properties, feature)
    errors = optional_module("botocore.exceptions", extra="s3", feature=feature)
    try:
        credentials = session.get_credentials()
    except errors.BotoCoreError as error:
        raise StorageUnavailableError(
            f"the keys of the server could not be loaded: {type(error).__name__}", next_step="check the profile of its catalog"
        ) from None
    if credentials is None:
        raise StorageUnavailableError(
            "the server has no keys to sign with", next_step="set s3.access-key-id and s3.secret-access-key for its catalog"
        )
    return credentials.get_frozen_credentials()


def region_of(properties: Mapping[str, str]) -> str | None:
    """Return the region in a catalog's properties, under every name that it can have; None if there is none."""
    region: str | None = fsspec_options(S3, properties).get("client_kwargs", {}).get("region_name")
    return region
