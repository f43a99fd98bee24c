"""`MetastoreStore`: the base class of the stores in AWS Glue and in a Hive metastore.

Both metastores may also contain tables in other formats, and have the metadata location in a parameter of the table. Namespaces have one level, and a commit
changes one table. The corresponding classes in Java are BaseMetastoreCatalog and BaseMetastoreTableOperations. Spec: Metastore Tables.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Unknown
from icefloe.errors import CommitUnknownError, IcefloeError, NoSuchTableError, UnfinishedDropError, UnsupportedFeatureError
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.ports import FileIO
from icefloe.stores.catalog_store import CommitRequest, TableLocation

# Parameters of a table in a metastore, and the value of the first parameter for an Iceberg table.
TABLE_TYPE, LOCATION, PREVIOUS_LOCATION = "table_type", "metadata_location", "previous_metadata_location"
ICEBERG = "ICEBERG"


def folder_of_database(properties: Mapping[str, str], name: str) -> str | None:
    """Return the default folder of a database, with the name that Hive, Java's GlueCatalog and PyIceberg choose; None without a warehouse."""
    warehouse = properties.get("warehouse", "").rstrip("/")
    return f"{warehouse}/{name}.db" if warehouse else None


class MetastoreStore(ABC):
    """The base class of catalog stores in AWS Glue or in a Hive metastore.

    Args of the constructor: `io` reads metadata files to get the columns and properties that the metastore shows.
    """

    drops_files = False
    writes_metadata = False
    service: ClassVar[str]  # the name of the metastore in errors

    def __init__(self, name: str, io: FileIO) -> None:
        self.name = name
        self._io = io

    @abstractmethod
    def load(self, identifier: Identifier) -> TableLocation:
        """Load a table. See `CatalogStore.load`. Raises `NoSuchTableError` also for a table in another format."""

    @abstractmethod
    def create(self, identifier: Identifier, metadata_location: str) -> str:
        pass

    @abstractmethod
    def _swap(self, request: CommitRequest) -> Outcome:
        """Change a table's metadata location if it is the expected location."""

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """Load one table after another, because a metastore cannot show several tables at the same moment."""
        return [self.load(identifier) for identifier in identifiers]

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Commit the change of one table. See `CatalogStore.commit`. Raises `UnsupportedFeatureError` for more than one table."""
        if len(requests) != 1:
            raise UnsupportedFeatureError(
                f"catalog {self.name!r} is in {self.service}, which cannot commit several tables at once",
                next_step="use a SQL catalog, or commit one table after another",
            )
        request = requests[0]
        if request.expected is not None:
            return self._swap(request)
        try:
            self.create(request.identifier, request.new)
        except CommitUnknownError as error:
            return Unknown(reason=error.message)
        except IcefloeError as error:
            return Refused(error=error)
        return Committed()

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Determine how a commit ended. See `CatalogStore.commit_status`. If nothing has changed, the request is sent again: it cannot succeed twice."""
        request = requests[0]
        try:
            current = self.load(request.identifier).metadata_location
        except UnfinishedDropError as error:  # this very request may have created the table
            return Unknown(reason=error.message)
        except NoSuchTableError:
            return self.commit(requests) if request.expected is None else Conflicted(current_location=None, is_reply_lost=True)
        except IcefloeError as error:
            return Unknown(reason=error.message)
        if current == request.new:
            return Committed()
        return self._swap(request) if current == request.expected else Conflicted(current_location=current, is_reply_lost=True)

    def _nesting_error(self, namespace: Identifier) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"namespace {dotted(namespace)!r} has {len(namespace)} levels, and databases of {self.service} do not nest",
            next_step="use a name of one level",
        )

    def _other_format(self, identifier: Identifier) -> NoSuchTableError:
        return NoSuchTableError(
            f"{dotted(identifier)!r} is a table of catalog {self.name!r}, and no Iceberg table",
            next_step="read it with Spark's own Hive support",
        )

    def _creation_unknown(self, identifier: Identifier, metadata_location: str, failure: Exception) -> CommitUnknownError:
        return CommitUnknownError(
            f"table {dotted(identifier)!r} may have been created in catalog {self.name!r}: {failure}",
            table=dotted(identifier),
            path=metadata_location,
            next_step="look whether the table exists before you create it again; no file was deleted",
        )
