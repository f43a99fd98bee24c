"""`Option`: a name that users may set, with its meaning, for the generated configuration reference.

Table and view properties are values of `Property` (`spec/metadata/property_kinds.py`), which also reads them. An `Option` is not stored in tables: the
specification has no such names.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """One name that users may set, its effect, and its default as text. `java` is False if Java's Iceberg does not have the name."""

    name: str
    meaning: str
    default: str = ""
    java: bool = True
