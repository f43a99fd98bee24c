"""Errors under the module name of PyIceberg, for `except` clauses: `from icefloe.exceptions import NoSuchTableError`. Each is a class of `icefloe.errors`.

Errors of services that Icefloe does not use, such as those of a REST catalog, are not here.
"""

from icefloe.errors import CommitConflictError as CommitFailedException
from icefloe.errors import CommitInvalidatedError as ValidationException
from icefloe.errors import CommitUnknownError as CommitStateUnknownException
from icefloe.errors import InvalidInputError as ValidationError
from icefloe.errors import InvalidPropertyError as NoSuchPropertyException
from icefloe.errors import InvalidSchemaError as ResolveError
from icefloe.errors import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NotInstalledError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from icefloe.errors import NoSuchTableError as NoSuchIcebergTableError
from icefloe.errors import NotFoundError as NoSuchIdentifierError
from icefloe.errors import StoragePermissionError as ForbiddenError
from icefloe.errors import StorageUnavailableError as ServiceUnavailableError

__all__ = [
    "CommitFailedException",
    "CommitStateUnknownException",
    "ForbiddenError",
    "NamespaceAlreadyExistsError",
    "NamespaceNotEmptyError",
    "NoSuchIcebergTableError",
    "NoSuchIdentifierError",
    "NoSuchNamespaceError",
    "NoSuchPropertyException",
    "NoSuchTableError",
    "NoSuchViewError",
    "NotInstalledError",
    "ResolveError",
    "ServiceUnavailableError",
    "TableAlreadyExistsError",
    "ValidationError",
    "ValidationException",
    "ViewAlreadyExistsError",
]
