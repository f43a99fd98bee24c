package icefloe;

import java.net.URI;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import scala.collection.Iterator;

/**
 * How a session accesses the stores of planned files. Comet opens the files of S3 by itself, with those settings of the file system of Hadoop that it supports. Where another setting decides whose keys are sent, or
 * to which host, Comet would send other keys, read bytes that are still encrypted, or fail in the middle of a query.
 */
final class StoreAccess {
  private static final List SCHEMES = Arrays.asList(new String[] {"s3", "s3a", "s3n"});
  private static final String HADOOPS = "org.apache.hadoop.fs.s3a.S3AFileSystem";
  private static final String PROVIDERS = "aws.credentials.provider";
  private static final String OF_ROLES = "assumed.role.credentials.provider"; // the providers of the keys by which a role is assumed
  private static final String OWN_PROVIDER = "comet.credential.provider.class"; // a class that gives Comet credentials
  private static final String ASSUMED_ROLE = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider";
  // The classes of credential providers that Comet replaces by its own.
  private static final List KNOWN_PROVIDERS =
      Arrays.asList(
          new String[] {
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
            "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
            "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
            ASSUMED_ROLE,
            "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider",
            "software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider",
            "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
            "software.amazon.awssdk.auth.credentials.InstanceProfileCredentialsProvider",
            "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
            "com.amazonaws.auth.EnvironmentVariableCredentialsProvider",
            "com.amazonaws.auth.InstanceProfileCredentialsProvider",
            "com.amazonaws.auth.WebIdentityTokenCredentialsProvider"
          });
  // Settings that Comet does not read, after `fs.s3a.` or `fs.s3a.bucket.NAME.`.
  private static final String[] UNREAD = {"security.credential.provider.path", "delegation.token.binding", "aws.credentials.provider.mapping", "custom.signers", "http.signer.class", "proxy.host", "accesspoint.arn"};
  private static final String[] UNREAD_OF_ROLES = {"assumed.role.policy", "assumed.role.sts.endpoint", "assumed.role.external.id"};
  private static final String KEY_STORES = "hadoop.security.credential.provider.path"; // of keys that are in no setting
  private static final String[] ENCRYPTIONS = {"encryption.algorithm", "server-side-encryption-algorithm"};

  private final Configuration settings;
  private final String bucket;

  private StoreAccess(Configuration settings, String bucket) {
    this.settings = settings;
    this.bucket = bucket;
  }

  /** Returns why Comet must not open the files of a relation, whose files are in one store; null if it may. */
  static String obstacle(HadoopFsRelation relation) {
    Iterator roots = relation.location().rootPaths().iterator();
    URI store = roots.hasNext() ? ((Path) roots.next()).toUri() : null;
    if (store == null || store.getScheme() == null || !SCHEMES.contains(store.getScheme().toLowerCase())) return null;
    Configuration settings = ((org.apache.spark.sql.classic.SparkSession) relation.sparkSession()).sessionState().newHadoopConfWithOptions(relation.options());
    String name = nameOfFileSystem(store.getScheme(), settings);
    if (!name.equals(HADOOPS)) return "the file system of " + store.getScheme() + " is " + name + ", whose settings Comet does not know";
    return new StoreAccess(settings, store.getAuthority()).obstacle();
  }

  private static String nameOfFileSystem(String scheme, Configuration settings) {
    try {
      return FileSystem.getFileSystemClass(scheme, settings).getName();
    } catch (java.io.IOException error) {
      return "missing";
    }
  }

  private String obstacle() {
    for (int i = 0; i < UNREAD.length; i++) if (value(UNREAD[i]) != null) return unread(UNREAD[i]);
    if ("true".equalsIgnoreCase(value("endpoint.fips"))) return unread("endpoint.fips");
    for (int i = 0; i < ENCRYPTIONS.length; i++) {
      String algorithm = value(ENCRYPTIONS[i]);
      // Of other algorithms the store decrypts what it sends, without a key in the request.
      if (algorithm != null && (algorithm.toUpperCase().startsWith("CSE") || algorithm.toUpperCase().equals("SSE-C"))) return "Comet does not decrypt objects by " + algorithm;
    }
    if (value(OWN_PROVIDER) != null) return null;
    String keyStores = settings.get(KEY_STORES);
    if (keyStores != null && !keyStores.trim().isEmpty()) return "Comet does not read the setting " + KEY_STORES;
    return obstacleOf(PROVIDERS);
  }

  private String obstacleOf(String setting) {
    String names = value(setting);
    String[] each = names == null ? new String[0] : names.split(",");
    for (int i = 0; i < each.length; i++) {
      String name = each[i].trim();
      if (!name.isEmpty() && !KNOWN_PROVIDERS.contains(name)) return "Comet has no credential provider " + name;
      if (name.equals(ASSUMED_ROLE) && setting.equals(PROVIDERS)) {
        for (int j = 0; j < UNREAD_OF_ROLES.length; j++) if (value(UNREAD_OF_ROLES[j]) != null) return unread(UNREAD_OF_ROLES[j]);
        String ofRoles = obstacleOf(OF_ROLES);
        if (ofRoles != null) return ofRoles;
      }
    }
    return null;
  }

  private String unread(String setting) {
    boolean isOfBucket = isSet("fs.s3a.bucket." + bucket + "." + setting);
    return "Comet does not read the setting " + (isOfBucket ? "fs.s3a.bucket." + bucket + "." : "fs.s3a.") + setting;
  }

  /** Returns the value of a setting for the bucket; null where it is missing or empty. */
  private String value(String setting) {
    String ofBucket = "fs.s3a.bucket." + bucket + "." + setting;
    if (isSet(ofBucket)) return settings.get(ofBucket).trim();
    return isSet("fs.s3a." + setting) ? settings.get("fs.s3a." + setting).trim() : null;
  }

  private boolean isSet(String name) {
    String value = settings.get(name);
    return value != null && !value.trim().isEmpty();
  }
}
