"""The options for reading CSV and JSON files, with the names of Spark's options. Unknown options, and options that `load` sets itself, are refused.

An option has the same effect whether Arrow or Spark reads the files. There are no options for Parquet files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from icefloe.errors import InvalidInputError
from icefloe.loading.input_files import InputFormat

# The options that a load accepts, by the format of its files. Arrow and Spark both have them.
_SHARED: Final[Mapping[InputFormat, tuple[str, ...]]] = {
    InputFormat.CSV: ("sep", "delimiter", "quote", "escape", "nullValue", "comment", "encoding", "charset"),
    InputFormat.JSON: ("encoding", "charset"),
    InputFormat.PARQUET: (),
}
_SYNONYMS: Final[Mapping[str, str]] = {"delimiter": "sep", "charset": "encoding"}

# Names of these options in other readers of CSV, each with its name here, for the error message.
_ALIASES: Final[Mapping[str, str]] = {
    "separator": "sep",
    "seperator": "sep",
    "delim": "delimiter",
    "fieldDelimiter": "sep",
    "field_delimiter": "sep",
    "quoteChar": "quote",
    "quote_char": "quote",
    "quotation": "quote",
    "escapeChar": "escape",
    "escape_char": "escape",
    "null": "nullValue",
    "nulls": "nullValue",
    "null_values": "nullValue",
    "na_values": "nullValue",
    "naValue": "nullValue",
    "comments": "comment",
    "character_set": "charset",
}

# Options that `load` sets itself, each with a text about what the user can do instead.
_OVERRIDDEN: Final[Mapping[str, str]] = {
    "header": "files have a header line; for files without one, write it first",
    "mode": "use --bad-rows fail, skip or quarantine",
    "columnNameOfCorruptRecord": "use --bad-rows quarantine, which writes the bad rows to a file",
    "badRecordsPath": "use --bad-rows quarantine with --bad-rows-file",
    "inferSchema": "columns are inferred from all rows; state them with --schema",
    "samplingRatio": "columns are inferred from all rows; state them with --schema",
    "prefersDecimal": "state the columns with --schema",
    "primitivesAsString": "state the columns with --schema",
    "preferDate": "state the columns with --schema",
    "inferTimestamp": "state the columns with --schema",
    "enforceSchema": "columns are matched by name",
    "multiLine": "line breaks within quotes, arrays and objects over several lines are recognised",
    "timestampFormat": "timestamps are ISO 8601; load others as string with --schema and convert them in SQL",
    "timestampNTZFormat": "timestamps are ISO 8601; load others as string with --schema and convert them in SQL",
    "dateFormat": "dates are ISO 8601; load others as string with --schema and convert them in SQL",
    "timeZone": "times without a zone stay without one; in a column with zones they are UTC",
    "mergeSchema": "the columns of all files are merged by name",
    "maxColumns": "the header gives the number of columns",
    "recursiveFileLookup": "folders are searched with the folders in them",
    "pathGlobFilter": "name the files by a pattern",
    "compression": "the ending of a file names its compression",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """The options for reading the files of a load.

    Attributes:
        sep: The separator between the values of CSV.
        quote: The quote around values of CSV; empty if quotes have no special meaning.
        escape: The character before an escaped character of CSV; empty if quotes are escaped by doubling them, as in RFC 4180.
        null_value: A text that is read as null in CSV, in addition to the empty text; None for no such text.
        comment: The character at the start of lines of CSV that are comments; empty if there are no comments.
        encoding: The encoding of text files.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = ""
    null_value: str | None = None
    comment: str = ""
    encoding: str = "utf-8"


def reader_options(options: Mapping[str, str], file_format: InputFormat) -> ReaderOptions:
    r"""Check options, and convert them to `ReaderOptions`.

    Args:
        options: The values of the options by their names. Names may have any letter case, as in Spark. The separator tab may be written as `\t`.
        file_format: The format of the files.

    Raises:
        InvalidInputError: An option is unknown, is set by `load` itself, is given twice, or has a wrong value.
    """
    known = _SHARED[file_format]
    by_name: dict[str, str] = {}
    for given, value in options.items():
        name = next((name for name in known if name.lower() == given.lower()), None)
        if name is None:
            raise _unknown_option_error(given, known, file_format)
        name = _SYNONYMS.get(name, name)
        if name in by_name:
            raise InvalidInputError(f"--option {name} is given twice", next_step="give it once")
        by_name[name] = value
    sep = _character(by_name, "sep", ",", may_be_empty=False)
    quote, escape = _character(by_name, "quote", '"'), _character(by_name, "escape", "")
    comment = _character(by_name, "comment", "")
    taken = [character for character in (sep, quote, comment) if character]
    if len(set(taken)) < len(taken) or (escape and escape in (sep, comment)):
        raise InvalidInputError("--option sep, quote, escape and comment name the same character", next_step="choose different ones")
    encoding = by_name.get("encoding", "utf-8")
    try:
        "".encode(encoding)
    except (LookupError, ValueError, UnicodeError) as error:
        raise InvalidInputError(
            f"--option encoding: {encoding!r} is not a known encoding", next_step="name one such as utf-8, latin-1 or utf-16"
        ) from error
    return ReaderOptions(
        sep=sep,
        quote=quote,
        escape="" if escape == quote else escape,
        null_value=by_name.get("nullValue"),
        comment=comment,
        encoding=encoding,
    )


def spark_options(options: ReaderOptions, file_format: InputFormat) -> dict[str, str]:
    """Convert the options to the options of Spark's reader of the format."""
    if file_format is not InputFormat.CSV:
        return {"encoding": options.encoding} if file_format is InputFormat.JSON and options.encoding != "utf-8" else {}
    chosen = {
        "sep": options.sep,
        "quote": options.quote,
        # Quotes are escaped by doubling them; Spark's own default is a backslash.
        "escape": options.escape or options.quote,
        "encoding": options.encoding,
    }
    if options.null_value is not None:
        chosen["nullValue"] = options.null_value
    return {**chosen, "comment": options.comment} if options.comment else chosen


def _character(options: Mapping[str, str], name: str, default: str, *, may_be_empty: bool = True) -> str:
    value = options.get(name, default)
    value = "\t" if value == "\\t" else value
    if (not value and may_be_empty) or (len(value) == 1 and value.isascii() and value not in "\r\n\0"):
        return value
    raise InvalidInputError(f"--option {name}: {value!r} is not one character of ASCII", next_step=f"write it as --option {name}=';'")


def _unknown_option_error(given: str, known: tuple[str, ...], file_format: InputFormat) -> InvalidInputError:
    overridden = next((name for name in _OVERRIDDEN if name.lower() == given.lower()), None)
    if overridden is not None:
        return InvalidInputError(f"--option {overridden} cannot be set, because load sets it itself", next_step=_OVERRIDDEN[overridden])
    names = {alias.lower(): name for alias, name in _ALIASES.items() if name in known} | {name.lower(): name for name in known}
    close = get_close_matches(given.lower(), names, n=1)
    nearest = names[close[0]] if close else None
    options = f"the options of {file_format} files are {', '.join(known)}" if known else f"{file_format} files have no options"
    return InvalidInputError(
        f"--option {given} is not an option of {file_format} files",
        next_step=f"did you mean {nearest}? {options}" if nearest else options,
    )
