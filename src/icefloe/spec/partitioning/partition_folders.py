"""Reads partition values from folders `name=value` of data files of other programs, in the encoding of Hive and Spark or in that of Iceberg.

`partition_path` in `partition_spec.py` returns the folders of a table's own files. Spec: Partitioning.
"""

from urllib.parse import unquote, unquote_plus

from icefloe.errors import InvalidInputError

# The text of null in folders of Hive and Spark.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# The text of null in folders of Iceberg.
_ICEBERG_NULL = "null"


def folders_in_path(location: str) -> list[tuple[str, str]]:
    """Return the names and values of the folders `name=value` above a file, outermost first. Values are not decoded.

    Names are decoded as in Hive and Spark: a percent sign with two hex digits is an encoded character, and a plus sign is itself.
    """
    pairs = (part.partition("=") for part in location.split("/")[:-1])
    return [(unquote(name), text) for name, sign, text in pairs if sign]


def hive_value(text: str) -> str | None:
    """Decode the value in a folder's name as Hive and Spark encode it; None for null.

    Raises:
        InvalidInputError: Percent signs encode bytes that are not UTF-8.
    """
    try:
        return None if text == HIVE_NULL else unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInputError(f"the path has {text!r}, which is not UTF-8") from None


def iceberg_value(text: str) -> str | None:
    """Decode the value in a folder's name as Iceberg encodes it; None for null."""
    return None if text in (_ICEBERG_NULL, HIVE_NULL) else unquote_plus(text)
