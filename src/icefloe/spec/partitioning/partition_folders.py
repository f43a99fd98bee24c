"""The values in folders `name=value` of data files that other programs wrote, in the layout of Hive and Spark or in that of Iceberg.

`partition_path` of `partition_spec.py` writes the folders of a table's own files. Spec: Partitioning.
"""

from urllib.parse import unquote, unquote_plus

from icefloe.errors import InvalidInputError

# The folder of null in the layout of Hive and Spark.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# The folder of null in the layout of Iceberg.
_ICEBERG_NULL = "null"


def folders_in_path(location: str) -> list[tuple[str, str]]:
    """Return the names and values of the folders `name=value` above a file, outermost first; values are as they are written.

    Names are decoded as by Hive and Spark: a percent sign and two digits are another character, and a plus sign is a plus sign.
    """
    pairs = (part.partition("=") for part in location.split("/")[:-1])
    return [(unquote(name), text) for name, sign, text in pairs if sign]


def hive_value(text: str) -> str | None:
    """Return the value that the text of a folder has in the layout of Hive and Spark; None for null.

    Raises:
        InvalidInputError: Percent signs encode bytes that are not UTF-8.
    """
    try:
        return None if text == HIVE_NULL else unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInputError(f"the path has {text!r}, which is not UTF-8") from None


def iceberg_value(text: str) -> str | None:
    """Return the value that the text of a folder has in the layout of Iceberg; None for null."""
    return None if text in (_ICEBERG_NULL, HIVE_NULL) else unquote_plus(text)
