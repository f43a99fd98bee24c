"""`Reply`: the response of a REST catalog to a request, and its translation into Icefloe's errors.

A server's text is not trusted: it is limited to one line of bounded length, and the secrets of the request are removed. Only status codes and the names of
error types decide about the next step. Spec: REST catalog, IcebergErrorResponse.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from icefloe.errors import (
    CommitUnknownError,
    IcefloeError,
    InvalidInputError,
    MetadataFormatError,
    StorageError,
    StoragePermissionError,
    StorageUnavailableError,
    UnsupportedFeatureError,
    in_one_line,
)
from icefloe.io.storage_errors import without_secrets

# The maximum length of a server's message in characters.
SHOWN_CHARACTERS = 600
# The next step after a change whose outcome is unknown.
LOOK = "look in the catalog whether it happened before you repeat it; no file was deleted here"
NO_REPLY = 0
NOT_MODIFIED, NO_CONTENT = 304, 204
BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, TOKEN_EXPIRED, TOO_MANY = 400, 401, 403, 404, 409, 419, 429
NOT_IMPLEMENTED, UNAVAILABLE = 501, 503
T = TypeVar("T")


class _ErrorModel(msgspec.Struct):
    message: str | None = None
    type: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _ErrorModel


class _OAuthError(msgspec.Struct):
    error: str
    error_description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The response of a REST catalog to a request.

    Attributes:
        request: The HTTP method and the path, for messages.
        status: The status code; `NO_REPLY` if the connection failed.
        content: The body of a success.
        headers: The headers, by name in lower case.
        kind: The type of the error, such as `NoSuchTableException`; empty if the server sent none.
        message: The text of the server's error or of the connection's error: one line of bounded length, without secrets.
        was_sent: Whether the server may have received the request.
        was_repeated: Whether the request was sent before, and may have had its effect then.
        setting: The name of the catalog property with the request's address, for the next step in an error.
    """

    request: str
    status: int
    content: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    kind: str = ""
    message: str = ""
    was_sent: bool = True
    was_repeated: bool = False
    setting: str = "uri"

    @property
    def is_success(self) -> bool:
        """Whether the request succeeded; 304 counts as a success."""
        return 200 <= self.status < 300 or self.status == NOT_MODIFIED

    @property
    def is_unknown(self) -> bool:
        """Whether it is unknown if the request had its effect: the reply was lost, or the server or a gateway failed, at this attempt or an earlier one.

        The error of a repeated request does not decide this. For example, "the table already exists" may refer to the table that the first request created.
        """
        return (
            (self.was_repeated and not self.is_success)
            or (self.status == NO_REPLY and self.was_sent)
            or self.status in (408, 425)
            or (self.status >= 500 and self.status != NOT_IMPLEMENTED)
        )

    @property
    def is_refused_for_load(self) -> bool:
        """Whether the server refused the request because of its load, before carrying it out."""
        return self.status == TOO_MANY or (self.status == UNAVAILABLE and "retry-after" in self.headers)

    @property
    def failure(self) -> str:
        """The failure as text for a message: the server's message, or else the status."""
        text = self.message or f"the server responded with status {self.status}"
        return f"{text} (to a request that was sent again after a lost reply)" if self.was_repeated else text

    @property
    def etag(self) -> str | None:
        """The ETag of the response."""
        return self.headers.get("etag")

    def parse(self, kind: type[T]) -> T:
        """Return the body, parsed as a value of a type.

        Raises:
            MetadataFormatError: the body does not have the form of the type.
        """
        try:
            return msgspec.json.decode(self.content, type=kind, strict=False)  # some servers send numbers as text
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MetadataFormatError(
                f"the answer of the REST catalog to {self.request} is not of the protocol: {in_one_line(str(error))[:SHOWN_CHARACTERS]}",
                next_step="check that the catalog property uri is that of a REST catalog, and the version of the server"
                if self.setting == "uri"
                else f"check that the catalog property {self.setting} is the address of what replied",
            ) from None

    def unknown_error(self, what: str, *, path: str | None = None) -> CommitUnknownError:
        """Return the error for a change whose outcome is unknown.

        Args:
            what: The beginning of the message: the change whose outcome is unknown.
            path: The file or folder of the change.
        """
        return CommitUnknownError(f"{what}: {self.failure}", path=path, next_step=LOOK)

    def error(self, what: str) -> IcefloeError:
        """Return the error for a failed request, for failures that any request can have.

        Args:
            what: The beginning of the message: the operation that failed.
        """
        reason = f": {self.message}" if self.message else ""
        status = f" (status {self.status}{', ' + self.kind if self.kind else ''})" if self.status else ""
        text = f"{what}{reason}{status}"
        if self.status == NO_REPLY:
            return StorageUnavailableError(
                text, next_step=f"check the catalog property {self.setting}, the network and the proxy; then try again"
            )
        if self.status in (UNAUTHORIZED, TOKEN_EXPIRED):
            return StoragePermissionError(
                text, next_step="check the catalog properties credential, token and scope, or rest.auth.type; a token may have expired"
            )
        if self.status == FORBIDDEN:
            return StoragePermissionError(text, next_step="request the right to do this from the catalog's administrator")
        if self.status in (TOO_MANY, UNAVAILABLE, 408, 425, 500, 502, 504):
            return StorageUnavailableError(text, next_step="try again later; the catalog's own log has the cause if it lasts")
        if self.status in (405, 406, 501):
            return UnsupportedFeatureError(text, next_step="use a catalog that supports this operation")
        if self.status in (BAD_REQUEST, 422):
            return InvalidInputError(text, next_step="correct what the catalog refuses")
        return StorageError(text, next_step="the catalog's own log has the cause")


def failed_reply(request: str, status: int, body: bytes, headers: Mapping[str, str], secrets: list[str]) -> Reply:
    """Return the reply for an error status. The body may be JSON of the protocol or of OAuth2, or any text from a gateway."""
    kind, message = "", ""
    try:
        model = msgspec.json.decode(body, type=_ErrorBody).error
        kind, message = model.type or "", model.message or ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            oauth = msgspec.json.decode(body, type=_OAuthError)
            kind, message = oauth.error, oauth.error_description or ""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            is_page = "html" in headers.get("content-type", "")
            message = "" if is_page else body.decode("utf-8", "replace")
    return Reply(
        request=request, status=status, headers=headers, kind=server_text(kind, secrets)[:100], message=server_text(message, secrets)
    )


def server_text(text: str, secrets: list[str]) -> str:
    """Return a text from a server or library for a message: one line of bounded length, without secrets."""
    clean = in_one_line(without_secrets(text[: 4 * SHOWN_CHARACTERS], secrets)).strip()
    return clean if len(clean) <= SHOWN_CHARACTERS else f"{clean[:SHOWN_CHARACTERS]}..."


def decode_as(content: Any, kind: type[T], what: str) -> T:
    """Parse a part of a body as a value of a type. Raises `MetadataFormatError`."""
    try:
        return msgspec.json.decode(content, type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MetadataFormatError(f"{what} is not of the protocol: {in_one_line(str(error))[:SHOWN_CHARACTERS]}") from None
