"""All procedures by name. New modules of procedures must be added to `_MODULES`."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.procedures import (
    comparison_procedures,
    file_procedures,
    maintenance_procedures,
    moving_procedures,
    repair_procedures,
    snapshot_procedures,
    validation_procedures,
)
from icefloe.procedures.procedure import Procedure, WiderRows

_MODULES: tuple[ModuleType, ...] = (
    snapshot_procedures,
    maintenance_procedures,
    file_procedures,
    moving_procedures,
    validation_procedures,
    repair_procedures,
    comparison_procedures,
)
_BY_NAME = {member.name: member for module in _MODULES for member in vars(module).values() if isinstance(member, Procedure)}


def procedures_by_name() -> Mapping[str, Procedure]:
    """Return all procedures by their names, which are in lower case."""
    return _BY_NAME


def procedure_names() -> list[str]:
    """Return the names of all procedures, sorted."""
    return sorted(_BY_NAME)


def procedure_named(name: str) -> Procedure:
    """Return the procedure of a name.

    Args:
        name: The name of the procedure, in any letter case.

    Returns:
        The procedure, which can be called with a catalog and arguments.

    Raises:
        InvalidInputError: There is no procedure of that name.
    """
    named = _BY_NAME.get(name.lower())
    if named is None:
        raise InvalidInputError(f"there is no procedure {name!r}", next_step=f"there are: {', '.join(procedure_names())}")
    return named


def call(catalog: Catalog, name: str, **arguments: Any) -> list[dict[str, Any]]:
    """Run a procedure, such as `call(catalog, "rollback_to_snapshot", table="db.t", snapshot_id=1)`.

    Args:
        catalog: The catalog of the table.
        name: The name of the procedure, in any letter case.
        **arguments: The arguments by the names of the procedure's parameters; None counts as left out.

    Returns:
        The result rows, each as a dictionary with the values by the names of the columns.

    Raises:
        InvalidInputError: There is no procedure of that name, a required argument is missing, or an argument has an unknown name.
        IcefloeError: The procedure failed.
    """
    procedure = procedure_named(name)
    rows = procedure(catalog, **arguments)
    more = rows.more if isinstance(rows, WiderRows) else ()
    columns = [*(field.name for field in procedure.output), *(column for column, _ in more)]
    return [dict(zip(columns, row, strict=True)) for row in rows]
