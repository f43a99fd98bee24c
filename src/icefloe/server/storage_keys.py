"""The server's own keys to S3, with which it signs requests and calls the token service: those by which its catalog opens the files.

They come from the catalog's properties, by every name that these have (`s3.access-key-id`, `client.access-key-id`, `s3.profile-name`), else from this machine.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.errors import StorageUnavailableError
from icefloe.io.object_store_options import S3, fsspec_options
from icefloe.optional_packages import optional_module


def session_of(properties: Mapping[str, str], feature: str) -> Any:
    """Return botocore's session with the profile and the keys of a catalog's properties.

    Args:
        properties: The properties.
        feature: What needs it, for the error of a missing package.

    Raises:
        NotInstalledError: The package botocore is missing.
    """
    options = fsspec_options(S3, properties)
    session = optional_module("botocore.session", extra="s3", feature=feature).Session(profile=options.get("profile"))
    if options.get("key"):
        session.set_credentials(options["key"], options.get("secret", ""), options.get("token"))
    return session


def keys_of(properties: Mapping[str, str], feature: str) -> Any:
    """Return the keys of a catalog's properties, or those of this machine.

    Args:
        properties: The properties.
        feature: What needs them, for the error of a missing package.

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
    """Return the region of a catalog's properties, by every name that it has."""
    region: str | None = fsspec_options(S3, properties).get("client_kwargs", {}).get("region_name")
    return region
