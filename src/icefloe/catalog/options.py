"""The properties of a catalog that have an effect in Icefloe, and its environment variables, with their meanings.

Properties of Java's Iceberg that have no effect are in `unused_options.py`, properties of storage in `io/storage_options.py`.
"""

from collections.abc import Mapping

from icefloe.catalog.catalog import DEFAULT_NAMESPACE, TABLE_DEFAULT_PREFIX, TABLE_OVERRIDE_PREFIX, UNIQUE_TABLE_LOCATION
from icefloe.catalog.catalog_views import DEFAULT_PREFIX, OVERRIDE_PREFIX
from icefloe.catalog.unused_options import UNUSED_CATALOG_PROPERTIES
from icefloe.errors import InvalidPropertyError
from icefloe.formatting import short_text
from icefloe.io.storage_options import LOCATION_OPTIONS, MANIFEST_CACHE_OPTIONS, STORAGE_OPTIONS
from icefloe.option import Option
from icefloe.similar_names import similar_name
from icefloe.stores.catalog_store import SCHEMA_VERSION
from icefloe.stores.rest.settings import REST_OPTIONS

CATALOG_OPTIONS = (
    Option(
        "type",
        "`sql` (or `jdbc`), `rest`, `glue`, `hive`, `file-system` (or `hadoop`), or `in-memory`, which is SQLite in memory.",
        "`sql`",
    ),
    Option("catalog-impl", "Class of a catalog in Java, where `type` is not set; it determines the type."),
    Option("jdbc.user", "User of the database, where `uri` is that of a Java driver."),
    Option("jdbc.password", "Password of the user."),
    Option(
        "uri",
        "Address of the database of a SQL catalog, as SQLAlchemy writes it: `sqlite:////folder/catalog.db`; or of a REST catalog; or of a Hive metastore, "
        "`thrift://host:9083`, where commas separate several.",
    ),
    Option("warehouse", "Folder of the tables: `warehouse/namespace/table`. Of a REST catalog, the name that the server has for it."),
    Option(TABLE_DEFAULT_PREFIX, "The property of that name of each table that the catalog creates, where the call gives none."),
    Option(TABLE_OVERRIDE_PREFIX, "The property of that name of each table that the catalog creates, whatever the call gives."),
    Option(DEFAULT_PREFIX, "The same for views."),
    Option(OVERRIDE_PREFIX, "The same for views."),
    Option(DEFAULT_NAMESPACE, "Namespace of a name of one part; levels are joined with dots."),
    Option(UNIQUE_TABLE_LOCATION, "`true`: the folder of each new table has a unique suffix.", "`false`"),
    Option(SCHEMA_VERSION, "`V1` lets a SQL catalog add to a database without views the column that views need.", "`V0`"),
    Option("init_catalog_tables", "`false`: a SQL catalog does not create its tables in the database.", "`true`", java=False),
    Option("glue.endpoint", "Address of the Glue service."),
    Option("glue.id", "Id of the Glue catalog, by default the account."),
    Option("glue.region", "Region of Glue; by default `client.region`, and then the machine's.", java=False),
    Option("glue.access-key-id", "Access key for Glue; by default `client.access-key-id`, and then the machine's credentials.", java=False),
    Option("glue.secret-access-key", "Its secret.", java=False),
    Option("glue.session-token", "Its token.", java=False),
    Option("glue.profile-name", "Profile of the machine's AWS configuration.", java=False),
    Option("glue.skip-archive", "`false`: Glue keeps the version of a table that a commit replaces.", "`true`"),
    Option("glue.max-retries", "Times that a request to Glue is sent.", "`10`", java=False),
    Option("iceberg.engine.hive.lock-enabled", "`false`: commits take no locks of the Hive metastore, which must be of Hive 4.", "`true`"),
    Option("iceberg.engine.hive.enabled", "`true`: Hive itself can read the tables.", "`false`"),
    Option("iceberg.hive.lock-timeout-ms", "How long a commit waits for the lock of a table.", "`180000`"),
    Option("iceberg.hive.lock-check-min-wait-ms", "Shortest wait before the lock is looked at again.", "`50`"),
    Option("iceberg.hive.lock-check-max-wait-ms", "Longest wait.", "`5000`"),
    Option("iceberg.hive.lock-heartbeat-interval-ms", "How often a lock that is held is renewed.", "`240000`"),
    Option("iceberg.hive.table-property-max-size", "Longest text about a table that the metastore is given.", "`32672`"),
    Option(
        "ugi", "User name that is sent to the Hive metastore, and after a colon a group; by default the user of this process.", java=False
    ),
    Option("hive.hive2-compatible", "`true`: the metastore is of Hive 2, which has no time stamps with a zone.", "`false`", java=False),
    Option("hive.kerberos-authentication", "`true` is refused: there is no Kerberos.", "`false`", java=False),
    Option("echo", "`true`: SQLAlchemy logs every statement.", "`false`", java=False),
)
ENVIRONMENT = (
    Option("ICEFLOE_CATALOG__NAME__KEY", "A property of a catalog: in `KEY`, `__` is a dot and `_` a hyphen.", java=False),
    Option("PYICEBERG_CATALOG__NAME__KEY", "The same, as PyIceberg's users have it.", java=False),
    Option("ICEFLOE_CATALOG", "The catalog of `load_catalog()` without a name.", "`default`", java=False),
    Option("PYICEBERG_DEFAULT_CATALOG", "The same, as PyIceberg's users have it.", java=False),
    Option("ICEFLOE_HOME", "Folder where `icefloe.yaml` is looked for first; then the working folder and the home folder.", java=False),
    Option(
        "PYICEBERG_HOME", "Folder where `.pyiceberg.yaml` is looked for first; then the home folder and the working folder.", java=False
    ),
    Option("XDG_CACHE_HOME", "Folder of caches, where `icefloe` keeps compiled classes.", "`~/.cache`", java=False),
    Option("ICEFLOE_PROGRESS", "`0`: long work shows no progress on a terminal or in a notebook.", "`1`", java=False),
    Option("COLUMNS", "Width of the command line's output to a terminal; by default the terminal's own.", java=False),
    Option("VIRTUAL_ENV", "The activated environment; errors about missing packages name another one by its interpreter.", java=False),
    Option("JAVA_HOME", "Java that Spark runs on, where it is 17 or later; else Icefloe looks for one, or brings its own.", java=False),
    Option("PYSPARK_PYTHON", "Python of Spark's tasks.", "this Python", java=False),
    Option("PYSPARK_DRIVER_PYTHON", "Python of Spark's driver.", "this Python", java=False),
    Option("PYSPARK_SUBMIT_ARGS", "Arguments of `spark-submit` for the session that Icefloe starts.", "`pyspark-shell`", java=False),
    Option(
        "SPARK_LOCAL_IP",
        "Address of Spark's driver; Icefloe gives one where the machine's own name does not resolve.",
        "`127.0.0.1`",
        java=False,
    ),
    Option("SPARK_CONF_DIR", "Folder of `spark-defaults.conf`.", "`conf` of Spark's own folder", java=False),
)
# Properties of PyIceberg and Java that are in no list of Icefloe, and whose names could be mistaken for misspelt known ones.
_OF_OTHERS = (
    "s3.signer",
    "s3.signer.uri",
    "s3.signer.endpoint",
    "s3.proxy-uri",
    "s3.role-arn",
    "s3.role-session-name",
    "gcs.endpoint",
    "adls.credential",
)


def check_names(properties: Mapping[str, str], catalog_name: str) -> None:
    """Refuse properties whose names are similar to a known name, because they seem misspelt. Other unknown names are allowed: they may be the user's own.

    Args:
        properties: The properties of a catalog.
        catalog_name: The name of the catalog, for the error.

    Raises:
        InvalidPropertyError: A name seems misspelt; the next step of the error contains the known name.
    """
    known_names = [
        option.name for option in (*CATALOG_OPTIONS, *REST_OPTIONS, *STORAGE_OPTIONS, *LOCATION_OPTIONS, *MANIFEST_CACHE_OPTIONS)
    ]
    known_names += [*(name.replace("_", "-") for name in known_names), *UNUSED_CATALOG_PROPERTIES, *_OF_OTHERS]
    # A catalog property with the prefix `hadoop.` is a setting of Hadoop's configuration, from which Java reads some properties.
    given = [name for name in properties if name.removeprefix("hadoop.") not in known_names]
    misspelt = {name: similar for name in given if (similar := similar_name(name, known_names)) is not None}
    if misspelt:
        raise InvalidPropertyError(
            f"catalog {catalog_name}: there is no property {', '.join(map(short_text, misspelt))}",
            next_step=f"write {', '.join(misspelt.values())}",
        )
