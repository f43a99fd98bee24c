"""The catalog properties about storage, with their meanings: allowed locations, object stores, and the cache of manifests.

`locations.py`, `file_io_by_scheme.py`, `object_store_file_io.py` and `manifest_cache.py` use them.
"""

from icefloe.io.file_io_by_scheme import ALLOWED_SCHEMES
from icefloe.io.locations import ALLOWED_LOCATIONS, DELETE_OUTSIDE, POLICY, WARN
from icefloe.io.manifest_cache import CONTENT_LENGTH, ENABLED, EXPIRATION, LOCAL_DIR, LOCAL_TOTAL_BYTES, TOTAL_BYTES
from icefloe.option import Option

LOCATION_OPTIONS = (
    Option(POLICY, "`strict`: nothing is read or written outside the table, the warehouse and the allowed locations.", WARN, java=False),
    Option(ALLOWED_LOCATIONS, "Folders, with commas between them, that tables may name.", java=False),
    Option(ALLOWED_SCHEMES, "Schemes, with commas between them, that tables may name besides the usual ones.", java=False),
    Option(DELETE_OUTSIDE, "Folders outside of a table in which its expiry and purge may delete files.", java=False),
)
MANIFEST_CACHE_OPTIONS = (
    Option(ENABLED, "`false`: decoded manifests are not kept in memory for the next scan. Java's default is `false`.", "`true`"),
    Option(
        TOTAL_BYTES,
        "The most memory that they take in this process, in bytes of their columns and the objects of these. Java counts the bytes of files.",
        "`104857600`",
    ),
    Option(CONTENT_LENGTH, "Length in bytes of the longest manifest that is kept.", "`8388608`"),
    Option(EXPIRATION, "Manifests that no scan used for so long are dropped; `0` for never.", "`60000`"),
    Option(
        LOCAL_DIR,
        "Absolute path of a folder on this machine, in which decoded manifests are kept for the next process too. Only this user has access to its subfolder "
        "`icefloe-manifests`.",
        java=False,
    ),
    Option(
        LOCAL_TOTAL_BYTES,
        "The most bytes of files in that folder; those that were used least recently are removed.",
        "`1073741824`",
        java=False,
    ),
)
# The names are PyIceberg's, so that its configuration files work; Java's S3FileIO and GCSFileIO use some of these names too.
STORAGE_OPTIONS = (
    Option("s3.endpoint", "Address of the S3 service, such as `http://127.0.0.1:9000`."),
    Option("s3.access-key-id", "Access key; without it, the machine's own credentials."),
    Option("s3.secret-access-key", "Secret of the access key."),
    Option("s3.session-token", "Token of temporary credentials."),
    Option("s3.anonymous", "`true`: no credentials are sent.", "false", java=False),
    Option("s3.profile-name", "Profile of the machine's AWS configuration.", java=False),
    Option("s3.region", "Region of the bucket.", java=False),
    Option("client.region", "The same, as Java has it."),
    Option("client.access-key-id", "Access key of all AWS services, where `s3.access-key-id` is not set.", java=False),
    Option("client.secret-access-key", "Its secret.", java=False),
    Option("client.session-token", "Its token.", java=False),
    Option("client.profile-name", "Profile of all AWS services.", java=False),
    Option("s3.path-style-access", "`true`: the bucket is in the path of a request, and not in its host.", "`false`"),
    Option("s3.force-virtual-addressing", "`true`: the bucket is in the host of a request.", "`false`", java=False),
    Option("s3.acceleration-enabled", "`true`: requests go to S3's accelerated endpoint.", "`false`"),
    Option("s3.dualstack-enabled", "`true`: requests go to the endpoint for IPv6 and IPv4.", "`false`"),
    Option("s3.cross-region-access-enabled", "`true`: the region of each bucket is looked up.", "`false`"),
    Option("s3.requester-pays", "`true`: who reads a bucket of that kind agrees to pay.", "`false`", java=False),
    Option("s3.proxy-uri", "Address of a proxy.", java=False),
    Option("s3.connect-timeout", "Seconds to wait for a connection.", java=False),
    Option("s3.request-timeout", "Seconds to wait for a response.", java=False),
    Option("s3.retry.num-retries", "Times that a request is sent again, after longer and longer waits of random length.", "`5`"),
    Option(
        "s3.multipart.part-size-bytes", "Length of the parts in which a data file is uploaded; Java's default is `33554432`.", "`52428800`"
    ),
    Option("s3.sse.type", "Encryption by the store: `none`, `s3`, `kms` or `dsse-kms`.", "`none`"),
    Option("s3.sse.key", "Id of the key of `kms`."),
    Option("s3.acl", "Access control list of new objects, by its name."),
    Option("s3.write.storage-class", "Storage class of new objects."),
    Option("gcs.project-id", "Project of the bucket."),
    Option("gcs.oauth2.token", "OAuth token; without it, the machine's own credentials."),
    Option("gcs.no-auth", "`true`: no credentials are sent.", "`false`"),
    Option("gcs.service.host", "Address of the service."),
    Option("gcs.endpoint", "The same, as older versions of PyIceberg have it.", java=False),
    Option("gcs.user-project", "Project that pays for reading a bucket whose requester pays."),
    Option("gcs.requester-pays", "`true`: the project of `gcs.project-id` pays for it.", "`false`", java=False),
    Option("gcs.default-bucket-location", "Where a new bucket would be made.", java=False),
    Option("adls.account-name", "Storage account that the keys are for; the warehouse's where it is not set.", java=False),
    Option("adls.account-host", "Host of that account, where it is not one of Azure's.", java=False),
    Option("adls.account-key", "Key of the account.", java=False),
    Option("adls.sas-token", "Shared access signature of the account.", java=False),
    Option("adls.connection-string", "Connection string of the account.", java=False),
    Option("adls.sas-token.", "Shared access signature of the account, or its host, whose name follows, as REST catalogs send it."),
    Option("adls.connection-string.", "The same for a connection string."),
    Option("adls.auth.shared-key.account.name", "`adls.account-name`, as Java has it."),
    Option("adls.auth.shared-key.account.key", "`adls.account-key`, as Java has it."),
    Option("adls.tenant-id", "Tenant of a service principal.", java=False),
    Option("adls.client-id", "Id of a service principal.", java=False),
    Option("adls.client-secret", "Secret of a service principal.", java=False),
    Option("hdfs.host", "Name node.", java=False),
    Option("hdfs.port", "Port of the name node.", java=False),
    Option("hdfs.user", "User that files are read and written as.", java=False),
)
