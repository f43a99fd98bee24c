"""The properties of a REST catalog: their names, meanings and values. The names of Java and of PyIceberg are supported.

Spec: REST catalog, CatalogConfig.
"""

from collections.abc import Mapping

from icefloe.errors import InvalidPropertyError, in_one_line
from icefloe.option import Option
from icefloe.stores.rest.origins import OAUTH2_SERVER_URI, TRUSTED_ORIGINS

AUTH_TYPE, PYICEBERG_AUTH_TYPE = "rest.auth.type", "auth.type"
BASIC_USERNAME, BASIC_PASSWORD = "rest.auth.basic.username", "rest.auth.basic.password"
TOKEN, CREDENTIAL, SCOPE, AUDIENCE, RESOURCE = "token", "credential", "scope", "audience", "resource"
TOKEN_EXPIRES_IN_MS, TOKEN_REFRESH, TOKEN_EXCHANGE = "token-expires-in-ms", "token-refresh-enabled", "token-exchange-enabled"
SIGV4_ENABLED, SIGNING_NAME, SIGNING_REGION = "rest.sigv4-enabled", "rest.signing-name", "rest.signing-region"
SIGV4_DELEGATE = "rest.auth.sigv4.delegate-auth-type"
SIGNING_KEY, SIGNING_SECRET, SIGNING_SESSION = "rest.access-key-id", "rest.secret-access-key", "rest.session-token"
AUTH_IMPL = "auth.impl"
GOOGLE_CREDENTIALS, GOOGLE_SCOPES = "auth.google.credentials_path", "auth.google.scopes"
PREFIX, NAMESPACE_SEPARATOR, PAGE_SIZE = "prefix", "namespace-separator", "rest-page-size"
SCAN_PLANNING_MODE, PLANNING_TIMEOUT_MS = "scan-planning-mode", "rest-scan-planning.poll-timeout-ms"
SNAPSHOT_LOADING_MODE = "snapshot-loading-mode"
METRICS_REPORTING = "rest-metrics-reporting-enabled"
VIEW_ENDPOINTS = "view-endpoints-supported"
CACHE_ENTRIES, CACHE_EXPIRY_MS = "rest-table-cache.max-entries", "rest-table-cache.expire-after-write-ms"
ACCESS_DELEGATION, HEADER_PREFIX = "access-delegation", "header."
DELEGATION_HEADER = "X-Iceberg-Access-Delegation"
MAX_RETRIES, MAX_CONNECTIONS = "rest.client.max-retries", "rest.client.max-connections"
CONNECT_TIMEOUT_MS, SOCKET_TIMEOUT_MS = "rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms"
PROXY_HOST, PROXY_PORT = "rest.client.proxy.hostname", "rest.client.proxy.port"
PROXY_USERNAME, PROXY_PASSWORD = "rest.client.proxy.username", "rest.client.proxy.password"
CA_BUNDLE, CLIENT_CERTIFICATE, CLIENT_KEY = "ssl.cabundle", "ssl.client.cert", "ssl.client.key"
SERVER_PURGE = "rest-catalog-purge"
ALL, REFS = "all", "refs"
CLIENT, SERVER = "client", "server"

REST_OPTIONS = (
    Option(PREFIX, "Part of the path after `/v1`; the server usually sends it."),
    Option(
        AUTH_TYPE,
        "`none`, `basic`, `oauth2`, `sigv4`, `google`, or the dotted name of a class of your own; found by the other properties if unset.",
    ),
    Option(BASIC_USERNAME, "User name for `basic`."),
    Option(BASIC_PASSWORD, "Password for `basic`."),
    Option(CREDENTIAL, "`client_id:client_secret` for OAuth2, exchanged for a token that is refreshed ahead of its expiry."),
    Option(TOKEN, "Bearer token, sent as it is; exchanged for a newer one before it expires, if the server can."),
    Option(OAUTH2_SERVER_URI, "Address of the token endpoint.", "`uri/v1/oauth/tokens`"),
    Option(SCOPE, "Scope of the token.", "`catalog`"),
    Option(AUDIENCE, "Audience of the token."),
    Option(RESOURCE, "Resource of the token."),
    Option(TOKEN_EXPIRES_IN_MS, "Lifetime of `token` where the token does not show it.", "`3600000`"),
    Option(TOKEN_REFRESH, "`false`: a token is used until the server refuses it.", "`true`"),
    Option(TOKEN_EXCHANGE, "`false`: a token without a credential is not exchanged for a newer one.", "`true`"),
    Option(SIGV4_ENABLED, "`true`: requests are signed with AWS Signature Version 4, as type `sigv4` does.", "`false`"),
    Option(SIGNING_NAME, "Service name in the signature; services of AWS are recognized by their host.", "`execute-api`"),
    Option(SIGNING_REGION, "Region in the signature.", "`client.region`, or that of the machine"),
    Option(SIGNING_KEY, "Access key of the signature; without it, the machine's own credentials."),
    Option(SIGNING_SECRET, "Secret of the access key."),
    Option(SIGNING_SESSION, "Token of temporary credentials."),
    Option(SIGV4_DELEGATE, "Type of authentication whose header is signed too.", "`none`"),
    Option(AUTH_IMPL, "PyIceberg's name of the class of your own.", java=False),
    Option(GOOGLE_CREDENTIALS, "File of a service account; without it, the machine's own credentials.", java=False),
    Option(
        GOOGLE_SCOPES,
        "Scopes of the Google token, with commas between them.",
        "`https://www.googleapis.com/auth/cloud-platform`",
        java=False,
    ),
    Option(HEADER_PREFIX, "A header of that name in each request."),
    Option(
        ACCESS_DELEGATION,
        "How the server may give access to files: `vended-credentials`, `remote-signing`, both with a comma between them, or `none`.",
        "`vended-credentials,remote-signing`",
        java=False,
    ),
    Option(NAMESPACE_SEPARATOR, "Text between the levels of a namespace in paths, percent-encoded; the server sends it.", "`%1F`"),
    Option(PAGE_SIZE, "Names in one page of a listing; the server's own size if unset."),
    Option(CACHE_ENTRIES, "Tables whose metadata is kept and loaded again only if the server has a newer version; `0` for none.", "`100`"),
    Option(CACHE_EXPIRY_MS, "Milliseconds after which a kept table is loaded again in any case.", "`300000`"),
    Option(
        SCAN_PLANNING_MODE,
        "`server`: the server plans scans; `client`: they are planned here. A server may decide it for a table.",
        "`client`",
    ),
    Option(PLANNING_TIMEOUT_MS, "Milliseconds to wait for a plan that the server makes.", "`300000`"),
    Option(
        SNAPSHOT_LOADING_MODE,
        "`refs`: a table is loaded with the snapshots of its branches and tags, and with all of them when one is needed.",
        "`all`",
    ),
    Option(METRICS_REPORTING, "`false`: no reports of scans and commits are sent to a server that takes them.", "`true`"),
    Option(VIEW_ENDPOINTS, "`true`: a server that sends no list of endpoints has views.", "`false`"),
    Option(SERVER_PURGE, "`false`: `purge_table` deletes the files here; else the catalog does.", "`true`"),
    Option(MAX_RETRIES, "How often a request is sent again that can be.", "`5`"),
    Option(MAX_CONNECTIONS, "Connections to the catalog at a time.", "`100`"),
    Option(CONNECT_TIMEOUT_MS, "Milliseconds to wait for a connection.", "`10000`"),
    Option(SOCKET_TIMEOUT_MS, "Milliseconds to wait for data of an answer.", "`60000`"),
    Option(PROXY_HOST, "Host of a proxy; without it, that of the environment (`HTTPS_PROXY`, `NO_PROXY`)."),
    Option(PROXY_PORT, "Port of the proxy."),
    Option(PROXY_USERNAME, "User name at the proxy."),
    Option(PROXY_PASSWORD, "Password at the proxy."),
    Option(CA_BUNDLE, "File of certificates that the server's is checked against.", "those of the machine", java=False),
    Option(CLIENT_CERTIFICATE, "File of this client's certificate.", java=False),
    Option(CLIENT_KEY, "File of the key of that certificate.", java=False),
    Option(
        TRUSTED_ORIGINS,
        "Other origins, with commas between them, that the server may lead credentials to: `https://login.example.com`.",
        java=False,
    ),
)
# Properties of a REST catalog whose values never appear in messages.
REST_SECRETS = (TOKEN, CREDENTIAL, BASIC_PASSWORD, SIGNING_SECRET, SIGNING_SESSION, PROXY_PASSWORD)


def secrets_of(properties: Mapping[str, str]) -> list[str]:
    """Return the secrets in a REST catalog's properties, and the parts of a credential."""
    values = [properties[name] for name in REST_SECRETS if properties.get(name)]
    values += [
        text for name, text in properties.items() if name.startswith(("auth.", HEADER_PREFIX, "urn:ietf:params:oauth:token-type:")) and text
    ]
    credential = properties.get(CREDENTIAL, "")
    return [*values, *([credential.partition(":")[2]] if ":" in credential else [])]


def planning_mode(text: str | None, of: str) -> str | None:
    """Parse the property that states who plans scans: `client`, `server`, or None for an empty value. Raises `InvalidPropertyError`, which names `of`."""
    mode = (text or "").strip().lower()
    if mode not in ("", CLIENT, SERVER):
        raise InvalidPropertyError(
            f"{SCAN_PLANNING_MODE} of {of} is {in_one_line(mode)[:40]!r}", next_step=f"set it to {CLIENT} or {SERVER}"
        )
    return mode or None


def snapshot_mode(properties: Mapping[str, str]) -> str:
    """Return which snapshots are loaded with a table: `all` or `refs`. Raises `InvalidPropertyError`."""
    mode = properties.get(SNAPSHOT_LOADING_MODE, ALL).strip().lower()
    if mode not in (ALL, REFS):
        raise InvalidPropertyError(
            f"the catalog property {SNAPSHOT_LOADING_MODE} is {in_one_line(mode)[:40]!r}", next_step=f"set it to {ALL} or {REFS}"
        )
    return mode


def is_on(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return the boolean value of a property. Raises `InvalidPropertyError` unless it is `true` or `false`, in any letter case."""
    text = str(properties.get(name, default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidPropertyError(f"the catalog property {name} is {text!r}", next_step="set it to true or false")
    return text == "true"


def number(properties: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    """Return the value of a property as a whole number. Raises `InvalidPropertyError` for other texts, and for a number below `least`."""
    text = str(properties.get(name, default)).strip()
    if not text.isdecimal() or len(text) > 12 or int(text) < least:
        raise InvalidPropertyError(f"the catalog property {name} is {text!r}", next_step=f"set it to a whole number of at least {least}")
    return int(text)
