"""`new_data_location`: the location of a new data file or delete file, according to the table's location provider.

By default a file is in the folder of its partition. With `write.object-storage.enabled`, folders with a hash of its name come before that, so that the
locations of a table's files begin differently: object stores distribute load by prefixes of names. The hash is that of Java's `ObjectStoreLocationProvider`, in
four levels of folders.
Spec: Appendix F, Path Construction; File System Operations.
"""

from collections.abc import Mapping

from icefloe.spec.metadata.table_properties import OBJECT_STORE_ENABLED, OBJECT_STORE_PARTITIONED_PATHS
from icefloe.spec.partitioning.murmur3 import hash_bytes

# The number of hash bits in a location, the number of folder levels, and the bits of each level; the remaining bits are one more level.
HASH_BITS, LEVELS, BITS_OF_A_LEVEL = 20, 3, 4


def new_data_location(data_location: str, partition_folder: str, name: str, properties: Mapping[str, str], context: str = "") -> str:
    """Return the location of a new file.

    Args:
        data_location: The folder of the table's data files.
        partition_folder: The folder of its partition, with a slash at its end; empty if it has none.
        name: The name of the file.
        properties: The properties of the table.
        context: The last two names of the table's location, if other tables may use the same folder of data files; else empty.
    """
    folder = data_location.rstrip("/")
    if not OBJECT_STORE_ENABLED.read(properties):
        return f"{folder}/{partition_folder}{name}"
    has_partition = OBJECT_STORE_PARTITIONED_PATHS.read(properties)
    rest = f"{partition_folder if has_partition else ''}{name}"
    hashed = hash_folders(rest)
    if context:
        return f"{folder}/{hashed}/{context}/{rest}"
    return f"{folder}/{hashed}{'/' if has_partition else '-'}{rest}"


def hash_folders(name: str) -> str:
    """Return the hash of a name as folders of binary digits, such as `0101/0110/1001/10110010`."""
    bits = f"{hash_bytes(name.encode()):032b}"[-HASH_BITS:]
    levels = [bits[start : start + BITS_OF_A_LEVEL] for start in range(0, LEVELS * BITS_OF_A_LEVEL, BITS_OF_A_LEVEL)]
    return "/".join([*levels, bits[LEVELS * BITS_OF_A_LEVEL :]])
