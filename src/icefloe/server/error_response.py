"""The errors of the protocol: the HTTP status and the type for each error of Icefloe, which clients convert back to exceptions.

The types are the names of Java's exceptions, by which its client and PyIceberg choose theirs. An error that is not an `IcefloeError` is a fault of the server:
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
        kind: The value of `type`: the name of an exception of Java's client.
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


class RefusedRequest(Exception):  # noqa: N818  it is a response, which a handler sends by raising it
    """An error response whose error exists only in the protocol, so that `icefloe.errors` has no class for it."""

    def __init__(self, code: int, kind: str, message: str, *headers: tuple[str, str]) -> None:
        super().__init__(message)
        self.model = ErrorModel(code=code, kind=kind, message=message, headers=headers)


def bad_request(message: str) -> RefusedRequest:
    """Return the error for a request that violates a rule of the protocol."""
    return RefusedRequest(BAD_REQUEST, "BadRequestException", message)


def forbidden(message: str) -> RefusedRequest:
    """Return the error for a request that the rights of the user or the configuration of the server do not allow."""
    return RefusedRequest(FORBIDDEN, "ForbiddenException", message)


def unauthorized_response(message: str) -> RefusedRequest:
    """Return the error for a request without a valid token."""
    return RefusedRequest(UNAUTHORIZED, "NotAuthorizedException", message, ("WWW-Authenticate", "Bearer"))


def unprocessable(message: str) -> RefusedRequest:
    """Return the error for a request that contradicts itself."""
    return RefusedRequest(UNPROCESSABLE, "UnprocessableEntityException", message)


INTERNAL_ERROR = ErrorModel(
    code=FAILED, kind="InternalServerError", message="the server failed; its log has the reason under the id of the request"
)

# The status and type for each class of errors. The first class that matches is used.
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
    """Return the content of the response for an error.

    Args:
        error: The error that the operation raised.
    """
    if isinstance(error, RefusedRequest):
        return error.model
    if not isinstance(error, IcefloeError):
        return INTERNAL_ERROR
    for kind, code, name in _KINDS:
        if isinstance(error, kind):
            return ErrorModel(code=code, kind=name, message=str(error))
    return INTERNAL_ERROR
