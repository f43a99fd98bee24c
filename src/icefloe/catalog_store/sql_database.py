"""`SqlDatabase`: transactions on a catalog's database, and its tables, which are created if they are missing.

The engine is `sql_engine.py`, the errors `sql_errors.py`; the content is `sql_store.py` and `sql_namespaces.py`. Spec: Metastore Tables.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from icefloe.catalog_store.sql_engine import open_engine
from icefloe.catalog_store.sql_errors import database_error, shown_cause, without_password
from icefloe.catalog_store.sql_schema import ICEBERG_TABLES, NAMESPACE_PROPERTIES, TABLES
from icefloe.errors import InvalidInputError, StorageError, StorageUnavailableError

_OURS = frozenset(table.name for table in TABLES.sorted_tables)


class SqlDatabase:
    """The database at `uri` (an SQLAlchemy URL) as catalog `name` uses it."""

    def __init__(self, name: str, uri: str, *, echo: bool = False, add_types: bool = False, creates_tables: bool = True) -> None:
        """Prepare to connect. `add_types` adds the column `iceberg_type`, which all catalogs in the database share, where it is missing."""
        self.name = name
        self.uri = uri
        self.engine: Engine = open_engine(name, uri, echo=echo)
        try:
            if creates_tables:
                self._create_missing()
            self._look_at_columns()
            if add_types and not self.has_types:
                self._add_type_column()
        except BaseException:
            self.engine.dispose()  # the caller has no store to close
            raise

    @property
    def has_types(self) -> bool:
        """Whether there is a column `iceberg_type`; where there is none, every name is a table."""
        return (ICEBERG_TABLES.name, ICEBERG_TABLES.c.iceberg_type.name) in self._lengths

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Run the block in one transaction. Database errors are raised as errors of Icefloe, except for `IntegrityError`: the key is taken."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise database_error(error, self.name, self.uri) from shown_cause(error, self.uri)

    def check_length(self, table: str, column: str, value: str, what: str) -> None:
        """Refuse a text that the column cannot store. SQLite stores it anyway, and a copy in another database could not. Raises `InvalidInputError`."""
        most = self._lengths.get((table, column))
        if most is not None and len(value) > most:
            raise InvalidInputError(
                f"{what} is {len(value)} characters long, and the column {table}.{column} of catalog {self.name!r} takes {most}: {value[:60]}...",
                next_step="choose a shorter one",
            )

    def _create_missing(self) -> None:
        try:
            with self.engine.begin() as connection:
                existing = set(inspect(connection).get_table_names())
                TABLES.create_all(connection, tables=[table for table in TABLES.sorted_tables if table.name not in existing])
        except DBAPIError as error:
            # Another process may have made them at this very moment.
            with self.connection() as connection:
                if not set(inspect(connection).get_table_names()) >= _OURS:
                    raise database_error(error, self.name, self.uri) from shown_cause(error, self.uri)

    def _look_at_columns(self) -> None:
        with self.connection() as connection:
            found = inspect(connection)
            missing = sorted(_OURS.difference(found.get_table_names()))
            if missing:
                raise StorageUnavailableError(
                    f"catalog {self.name!r} at {without_password(self.uri)}: there is no table {', '.join(missing)}",
                    next_step="open the catalog once without init_catalog_tables=false, as a user who may create tables",
                )
            # A column that another implementation made may have no length.
            self._lengths: dict[tuple[str, str], int | None] = {
                (table.name, column["name"]): getattr(column["type"], "length", None)
                for table in (ICEBERG_TABLES, NAMESPACE_PROPERTIES)
                for column in found.get_columns(table.name)
            }

    def _add_type_column(self) -> None:
        column = ICEBERG_TABLES.c.iceberg_type
        try:
            with self.connection() as connection:
                kind = column.type.compile(self.engine.dialect)
                connection.execute(text(f"ALTER TABLE {ICEBERG_TABLES.name} ADD COLUMN {column.name} {kind}"))
        except StorageError:
            # Another process may have added it since we looked.
            self._look_at_columns()
            if not self.has_types:
                raise
        self._look_at_columns()
