"""Storage accounts of Azure: which account the host of a location belongs to, and which account the keys in the properties belong to."""

import re
from collections.abc import Mapping

# Properties with the name of the account that keys belong to if their property does not end in an account; the first one that is set counts.
ACCOUNT_NAMES = ("adls.account-name", "adls.auth.shared-key.account.name")
CONNECTION_STRING = "adls.connection-string"
# Domains in which only Azure assigns host names. The first label of such a host is the account.
_DOMAINS = (
    ".core.windows.net",
    ".core.chinacloudapi.cn",
    ".core.usgovcloudapi.net",
    ".core.cloudapi.de",
    ".storage.azure.net",
    ".fabric.microsoft.com",
)


def account_ends(host: str) -> set[str]:
    """Return the suffixes of property names that belong to the account of a host: the host itself, and the account alone if only Azure can assign the host.

    Args:
        host: The host of a location in lower case, without its port. It comes from a table's metadata, so that it may be any host.
    """
    account = host.partition(".")[0] if host.endswith(_DOMAINS) or "." not in host else ""
    return {host, account, host.replace(".dfs.", ".blob."), host.replace(".blob.", ".dfs.")} - {""}


def account_of_keys(properties: Mapping[str, str]) -> str:
    """Return the account of the keys in properties whose names have no account as suffix.

    Returns:
        The account, in lower case, from a property with its name or from the connection string; empty if neither has it.
    """
    if name := next((properties[name] for name in ACCOUNT_NAMES if properties.get(name)), ""):
        return name.lower()
    in_text = re.search(r"(?:^|;)\s*AccountName=([^;]+)", properties.get(CONNECTION_STRING, ""), re.IGNORECASE)
    return in_text[1].strip().lower() if in_text else ""
