"""The errors of the protocol: the status and the type of each error of Icefloe, as clients map them back to exceptions.

The types are the names of Java's exceptions, by which its client and PyIceberg's choose theirs. An error that is no `IcefloeError` is a fault of the server:
its text is logged and not sent. Spec: REST catalog, ErrorModel.
"""

from dataclasses import dataclass, field

from icefloe.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitInvalidatedError,
    CommitUnknownError,
    EngineError,
    FormatError,
    IcefloeError,
    InvalidInputError,
    LocationNotAllowedError,
    NamespaceNotEmptyError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchSnapshotError,
    NoSuchTableError,
    NoSuchViewError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    UnsupportedError,
)

BAD_REQUEST = 400
UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
NOT_ALLOWED = 405
UNSUPPORTED = 406
CONFLICT = 409
TOO_LARGE = 413
UNPROCESSABLE = 422
TOO_MANY = 429
FAILED = 500
UNAVAILABLE = 503
TIMED_OUT = 504


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorModel:
    """The content of an error response.

    Attributes:
        code: The HTTP status.
        kind: The `type`, the name of an exception of Java's client.
        message: What failed, and what to do.
        headers: Headers of the response, such as `Retry-After`.
    """

    code: int
    kind: str
    message: str
    headers: tuple[tuple[str, str], ...] = field(default=())

    def as_json(self) -> dict[str, object]:
        """Return the body of the response. Spec: REST catalog, IcebergErrorResponse."""
        return {"error": {"message": self.message, "type": self.kind, "code": self.code}}


class RefusedRequest(Exception):  # noqa: N818  it is a response, which the request's handler returns by raising it
    """A response with an error that has no class of its own in `icefloe.errors`, because only the protocol has it."""

    def __init__(self, code: int, kind: str, message: str, *headers: tuple[str, str]) -> None:
        super().__init__(message)
        self.model = ErrorModel(code=code, kind=kind, message=message, headers=headers)


def bad_request(message: str) -> RefusedRequest:
    """Return the response to a request that breaks a rule of the protocol."""
    return RefusedRequest(BAD_REQUEST, "BadRequestException", message)


def forbidden(message: str) -> RefusedRequest:
    """Return the response to a request that the token, or the server's configuration, does not allow."""
    return RefusedRequest(FORBIDDEN, "ForbiddenException", message)


def unauthorized_response(message: str) -> RefusedRequest:
    """Return the response to a request without a valid token."""
    return RefusedRequest(UNAUTHORIZED, "NotAuthorizedException", message, ("WWW-Authenticate", "Bearer"))


def unprocessable(message: str) -> RefusedRequest:
    """Return the response to a request that contradicts itself."""
    return RefusedRequest(UNPROCESSABLE, "UnprocessableEntityException", message)


INTERNAL_ERROR = ErrorModel(
    code=FAILED, kind="InternalServerError", message="the server failed; its log has the reason under the id of the request"
)

# The status and type of each class of errors; the first class that fits decides.
_KINDS: tuple[tuple[type[IcefloeError], int, str], ...] = (
    (NoSuchNamespaceError, NOT_FOUND, "NoSuchNamespaceException"),
    (NoSuchTableError, NOT_FOUND, "NoSuchTableException"),
    (NoSuchViewError, NOT_FOUND, "NoSuchViewException"),
    (NoSuchFileError, NOT_FOUND, "NotFoundException"),
    (NoSuchSnapshotError, BAD_REQUEST, "ValidationException"),
    (AlreadyExistsError, CONFLICT, "AlreadyExistsException"),
    (NamespaceNotEmptyError, CONFLICT, "NamespaceNotEmptyException"),
    (CommitConflictError, CONFLICT, "CommitFailedException"),
    (CommitInvalidatedError, CONFLICT, "CommitFailedException"),
    (CommitUnknownError, FAILED, "CommitStateUnknownException"),
    (LocationNotAllowedError, FORBIDDEN, "ForbiddenException"),
    (StoragePermissionError, FORBIDDEN, "ForbiddenException"),
    (StorageFullError, UNAVAILABLE, "ServiceUnavailableException"),
    (StorageError, UNAVAILABLE, "ServiceUnavailableException"),
    (InvalidInputError, BAD_REQUEST, "BadRequestException"),
    (UnsupportedError, UNSUPPORTED, "UnsupportedOperationException"),
    (FormatError, FAILED, "InternalServerError"),
    (EngineError, FAILED, "InternalServerError"),
)


def error_model(error: Exception) -> ErrorModel:
    """Return the response to an error.

    Args:
        error: What the operation raised.
    """
    if isinstance(error, RefusedRequest):
        return error.model
    if not isinstance(error, IcefloeError):
        return INTERNAL_ERROR
    for kind, code, name in _KINDS:
        if isinstance(error, kind):
            return ErrorModel(code=code, kind=name, message=str(error))
    return INTERNAL_ERROR
