package iceberg;

/** The same under the name that Java's format has, where Java's is not there. */
public final class DefaultSource extends icefloe.DefaultSource {}
