"""`Option`: one name that users may set, with its meaning, for the generated configuration reference.

Table and view properties are values of `Property` instead (`spec/metadata/property_kinds.py`), which reads them. The format has no such names.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """One name, its effect, and its default as text; `java` is False for a name that Java's Iceberg does not have."""

    name: str
    meaning: str
    default: str = ""
    java: bool = True
