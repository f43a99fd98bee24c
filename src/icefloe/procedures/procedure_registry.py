"""Every procedure by its name. A new room of procedures is added to `_ROOMS`."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.procedures import file_procedures, maintenance_procedures, snapshot_procedures
from icefloe.procedures.procedure import Procedure

_ROOMS: tuple[ModuleType, ...] = (snapshot_procedures, maintenance_procedures, file_procedures)
_BY_NAME = {found.name: found for room in _ROOMS for found in vars(room).values() if isinstance(found, Procedure)}


def procedures_by_name() -> Mapping[str, Procedure]:
    """Return every procedure by its name in lower case."""
    return _BY_NAME


def procedure_names() -> list[str]:
    """The names, sorted."""
    return sorted(_BY_NAME)


def procedure_named(name: str) -> Procedure:
    """The procedure of that name, in whatever case. Raises `InvalidInputError`."""
    found = _BY_NAME.get(name.lower())
    if found is None:
        raise InvalidInputError(f"there is no procedure {name!r}", next_step=f"there are: {', '.join(procedure_names())}")
    return found


def call(catalog: Catalog, name: str, **arguments: Any) -> list[dict[str, Any]]:
    """Runs a procedure; its rows by the names of its columns: `call(catalog, "rollback_to_snapshot", table="db.t", snapshot_id=1)`.

    Raises `InvalidInputError` where there is no such procedure or argument, and what the procedure raises.
    """
    found = procedure_named(name)
    columns = [field.name for field in found.output]
    return [dict(zip(columns, row, strict=True)) for row in found(catalog, **arguments)]
