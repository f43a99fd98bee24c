"""Accounts of Azure's storage: the hosts of locations, and the properties whose keys are for one account."""

import re
from collections.abc import Mapping

# Properties that name the account which the keys without an account in their names are for; the first that is set counts.
ACCOUNT_NAMES = ("adls.account-name", "adls.auth.shared-key.account.name")
CONNECTION_STRING = "adls.connection-string"
# Domains whose hosts Azure alone gives out, each with the account as its first label.
_DOMAINS = (
    ".core.windows.net",
    ".core.chinacloudapi.cn",
    ".core.usgovcloudapi.net",
    ".core.cloudapi.de",
    ".storage.azure.net",
    ".fabric.microsoft.com",
)


def account_ends(host: str) -> set[str]:
    """Return how the names of properties for the account of a host end: in the host, and in the account alone where Azure gives the host out.

    Args:
        host: The host of a location in lower case, without its port; a table states it, so that it may be any host.
    """
    account = host.partition(".")[0] if host.endswith(_DOMAINS) or "." not in host else ""
    return {host, account, host.replace(".dfs.", ".blob."), host.replace(".blob.", ".dfs.")} - {""}


def account_of_keys(properties: Mapping[str, str]) -> str:
    """Return the account that the keys without an account in their names are for, in lower case; empty if neither a name nor the connection string has it."""
    if name := next((properties[name] for name in ACCOUNT_NAMES if properties.get(name)), ""):
        return name.lower()
    in_text = re.search(r"(?:^|;)\s*AccountName=([^;]+)", properties.get(CONNECTION_STRING, ""), re.IGNORECASE)
    return in_text[1].strip().lower() if in_text else ""
