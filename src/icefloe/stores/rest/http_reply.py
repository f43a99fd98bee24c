"""`Reply`: the response of a REST catalog to a request, as a value; and its translation into the errors of Icefloe.

A server's text is hostile: it is bounded, in one line and without the secrets that the request carried. Only status codes and the names of error types decide
what happens next. Spec: REST catalog, IcebergErrorResponse.
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

# Characters of a server's message that are kept.
SHOWN_CHARACTERS = 600
# The next step after a change that may or may not have happened.
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
    """The answer to one request.

    Attributes:
        request: The verb and the path, for messages.
        status: The status code; `NO_REPLY` if the connection failed.
        content: The body of a success.
        headers: The headers, by name in lower case.
        kind: The name of the error's type, such as `NoSuchTableException`; empty where the server sent none.
        message: The server's text, or that of the connection's error: one line, bounded, without secrets.
        was_sent: Whether the server may have received the request.
        was_repeated: Whether the request was sent before, and may have had its effect then.
        setting: The catalog property with the address to which it was sent, for the next step of an error.
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
        """Whether the request succeeded; 304 is a success."""
        return 200 <= self.status < 300 or self.status == NOT_MODIFIED

    @property
    def is_unknown(self) -> bool:
        """Whether it is unknown if the request had its effect: the reply was lost, or the server or a gateway failed, this time or before a repeat.

        The error of a repeat determines nothing. A table that already exists can be the one that the first request created.
        """
        return (
            (self.was_repeated and not self.is_success)
            or (self.status == NO_REPLY and self.was_sent)
            or self.status in (408, 425)
            or (self.status >= 500 and self.status != NOT_IMPLEMENTED)
        )

    @property
    def is_refused_for_load(self) -> bool:
        """Whether the server refused the request because it has too many, and did not begin it."""
        return self.status == TOO_MANY or (self.status == UNAVAILABLE and "retry-after" in self.headers)

    @property
    def failure(self) -> str:
        """What failed, as the text of a message: the server's message, or the status without one."""
        text = self.message or f"the server responded with status {self.status}"
        return f"{text} (to a request that was sent again after a lost reply)" if self.was_repeated else text

    @property
    def etag(self) -> str | None:
        """The tag of the answer's version."""
        return self.headers.get("etag")

    def parse(self, kind: type[T]) -> T:
        """Return the body as a value.

        Raises:
            MetadataFormatError: the body is not of that form.
        """
        try:
            return msgspec.json.decode(self.content, type=kind, strict=False)  # a number may be sent as text
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MetadataFormatError(
                f"the answer of the REST catalog to {self.request} is not of the protocol: {in_one_line(str(error))[:SHOWN_CHARACTERS]}",
                next_step="check that the catalog property uri is that of a REST catalog, and the version of the server"
                if self.setting == "uri"
                else f"check that the catalog property {self.setting} is the address of what replied",
            ) from None

    def unknown_error(self, what: str, *, path: str | None = None) -> CommitUnknownError:
        """Return the error for a change of which it is unknown whether it happened.

        Args:
            what: What is unknown, as the beginning of the message.
            path: The file or folder of the change.
        """
        return CommitUnknownError(f"{what}: {self.failure}", path=path, next_step=LOOK)

    def error(self, what: str) -> IcefloeError:
        """Return the error for a request that failed for a reason that every request can fail for.

        Args:
            what: What failed, as the beginning of the message.
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
    """Return the reply with an error status, whose body may be JSON of the protocol, of OAuth2, or anything that a gateway wrote."""
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
    """Return a server's or a library's text for a message: one line, bounded, without secrets."""
    clean = in_one_line(without_secrets(text[: 4 * SHOWN_CHARACTERS], secrets)).strip()
    return clean if len(clean) <= SHOWN_CHARACTERS else f"{clean[:SHOWN_CHARACTERS]}..."


def decode_as(content: Any, kind: type[T], what: str) -> T:
    """Return a part of a body as a value. Raises `MetadataFormatError`."""
    try:
        return msgspec.json.decode(content, type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MetadataFormatError(f"{what} is not of the protocol: {in_one_line(str(error))[:SHOWN_CHARACTERS]}") from None
