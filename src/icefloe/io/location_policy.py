"""`LocationPolicy`: the catalog properties that restrict the locations of its tables. A table's own metadata cannot change them."""

from collections.abc import Mapping
from dataclasses import dataclass

from icefloe.errors import InvalidPropertyError
from icefloe.io.locations import LocationScope, folders_of, qualified

WAREHOUSE = "warehouse"
ALLOWED_LOCATIONS = "io.allowed-locations"
DELETE_OUTSIDE = "io.delete-outside"
POLICY = "io.location-policy"
WARN, STRICT = "warn", "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationPolicy:
    """The catalog properties `warehouse`, `io.allowed-locations`, `io.delete-outside` and `io.location-policy`.

    Attributes:
        warehouse: The location of the warehouse, absolute; None where the catalog has none.
        allowed_locations: Folders that tables may name besides the warehouse.
        delete_outside: Folders outside of a table in which its expiry and purge may delete files.
        is_strict: Whether reading and writing outside of the table, the warehouse and the allowed locations is refused.
    """

    warehouse: str | None = None
    allowed_locations: tuple[str, ...] = ()
    delete_outside: tuple[str, ...] = ()
    is_strict: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "LocationPolicy":
        """Return the policy that a catalog's properties configure. Raises `InvalidPropertyError`."""
        policy = properties.get(POLICY, WARN).strip().lower()
        if policy not in (WARN, STRICT):
            raise InvalidPropertyError(f"the catalog property {POLICY} is {policy!r}", next_step=f"set it to {WARN} or {STRICT}")
        warehouse = properties.get(WAREHOUSE)
        return cls(
            warehouse=qualified(warehouse) if warehouse else None,
            allowed_locations=listed(properties.get(ALLOWED_LOCATIONS)),
            delete_outside=listed(properties.get(DELETE_OUTSIDE)),
            is_strict=policy == STRICT,
        )

    def trusted(self) -> LocationScope:
        """Return the folders that the configuration names: the warehouse and the allowed locations."""
        return LocationScope(folders_of([*([self.warehouse] if self.warehouse else []), *self.allowed_locations]))


def listed(text: str | None) -> tuple[str, ...]:
    """Return the values of a property whose values are separated by commas."""
    return tuple(value.strip() for value in (text or "").split(",") if value.strip())
