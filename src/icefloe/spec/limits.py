"""`Limits`: the greatest size, number and nesting depth of the parts of a file that are read.

A file of a few kilobytes can claim a size, or decompress to a size, that exceeds the memory of any machine. So everything is checked against these limits
before memory is allocated. The limits belong to the process, not to a table or a catalog, because tables are not trusted, and because it is the process that
runs out of memory. `icefloe.set_limits` and the environment (`ICEFLOE_LIMITS__AVRO_BLOCK_BYTES=...`, read when `icefloe` is imported) change them. Spark's
tasks get the limits of the driver. The format has no such limits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

from icefloe.errors import InvalidInputError, InvalidPropertyError

PREFIX = "ICEFLOE_LIMITS__"
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of what a file that is read may contain or claim. Every limit is a whole number above 0."""

    # Bytes of one Avro block, unpacked. Writers make blocks of 16 KB to 1 MB; some put a whole manifest into one.
    avro_block_bytes: int = 256 * _MIB
    # Bytes of all blocks of a manifest, a manifest list or another Avro file that is read whole, unpacked. A million entries take about 1 GB.
    avro_file_bytes: int = 2048 * _MIB
    # Types of an Avro schema, counted wherever they are used: named types may expand to exponentially many.
    avro_schema_types: int = 200_000
    # Types of the Avro schema of a manifest or a manifest list. A partition field has three.
    manifest_schema_types: int = 5_000
    # Bytes of a metadata file of a table or a view, unpacked. A million snapshots take 0.7 GB.
    metadata_bytes: int = 1024 * _MIB
    # Values in lists and objects of a metadata file, estimated by its commas; checked if it has more than 64 MiB uncompressed. Two bytes of text may need sixty
    # bytes of memory.
    metadata_values: int = 32 * _MIB
    # Nesting depth of structs, lists and maps in a schema that is read, or of fields in a name mapping. Arrow reads no Parquet file deeper than 98.
    read_nesting: int = 100
    # Nesting depth of a schema that is written: of a new table, after a change, or of written rows. See `spec/schema/nesting.py`.
    write_nesting: int = 30
    # Bytes of a Puffin footer, unpacked. 64 MiB describe some 300,000 blobs.
    puffin_footer_bytes: int = 64 * _MIB
    # Bytes of a Puffin blob, unpacked.
    puffin_blob_bytes: int = 1024 * _MIB
    # Positions of one deletion vector that are expanded to numbers of 8 bytes. A vector that stays a bitmap may have more.
    deleted_positions: int = 256 * _MIB
    # Bytes of a text or a list of bytes in a Parquet footer; the same limit as Arrow's own.
    parquet_footer_bytes: int = 100_000_000
    # Elements of a list in a Parquet footer: columns, row groups, columns times row groups.
    parquet_footer_items: int = 1_000_000
    # Rows of an ORC stripe, which is read as a whole.
    orc_stripe_rows: int = 64 * _MIB
    # Rows of an ORC stripe times the number of its primitive columns that are read: 2 GiB of 8-byte numbers.
    orc_stripe_values: int = 256 * _MIB

    def __post_init__(self) -> None:
        """Raise `InvalidPropertyError` for a limit that is not a whole number from 1 to 2**63 - 1."""
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or not 0 < value < 1 << 63:
                raise InvalidPropertyError(
                    f"the limit {field.name} is {value!r}", next_step="set it to a whole number from 1 to 9223372036854775807"
                )


_DEFAULTS = Limits()


class _Current:
    """The limits of this process."""

    limits = _DEFAULTS


def limits() -> Limits:
    """Return the limits of this process."""
    return _Current.limits


def set_limits(new: Limits) -> Limits:
    """Set the limits of this process, for all its threads, and return the previous ones.

    Call it before tables are opened and before a Spark session is used: files that have been read are not checked again, and Spark's tasks get the limits that
    the driver has when their job is created.

    Raises:
        InvalidInputError: The argument is not `Limits`.
    """
    if not isinstance(new, Limits):
        raise InvalidInputError(
            f"the limits of this process cannot be set to {new!r}",
            next_step="pass the limits to change as icefloe.Limits(avro_block_bytes=...)",
        )
    before = _Current.limits
    _Current.limits = new
    return before


def limits_from_environment(environment: Mapping[str, str]) -> Limits:
    """Return the default limits, replaced by those that environment variables set.

    Raises:
        InvalidPropertyError: There is no limit with the name in a variable, or its value is not a whole number above 0.
    """
    names = {field.name for field in fields(Limits)}
    values: dict[str, int] = {}
    for variable, text in environment.items():
        name = variable.removeprefix(PREFIX).lower()
        if not variable.startswith(PREFIX):
            continue
        if name not in names:
            raise InvalidPropertyError(
                f"the environment variable {variable} is not a limit",
                next_step=f"use one of {', '.join(map(environment_variable, sorted(names)))}",
            )
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise InvalidPropertyError(
                f"the environment variable {variable} is {text!r}", next_step="set it to a whole number above 0, without a unit"
            )
        values[name] = int(text)
    return replace(_DEFAULTS, **values)


def limits_to_environment(current: Limits) -> Iterator[tuple[str, str]]:
    """Yield the environment variables that set these limits in another process: those that differ from the defaults."""
    for field in fields(current):
        value = getattr(current, field.name)
        if value != getattr(_DEFAULTS, field.name):
            yield environment_variable(field.name), str(value)


def environment_variable(name: str) -> str:
    """Return the name of the environment variable of a limit."""
    return f"{PREFIX}{name.upper()}"


def raise_limit(name: str) -> str:
    """Return the `next_step` text of an error about a limit: how to raise the limit in order to read the file."""
    return (
        f"if the file is trusted, raise the limit: set {environment_variable(name)} above {getattr(limits(), name)}, or "
        f"icefloe.set_limits(icefloe.Limits({name}=...))"
    )
