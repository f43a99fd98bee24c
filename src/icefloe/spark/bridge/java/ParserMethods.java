package icefloe;

import org.apache.spark.sql.catalyst.parser.ParserInterface;

/**
 * Spark's parser as the sessions see it: every method passes its call on to a `SparkParser`. The methods of the interface differ between versions of Spark, so `java_compiler.py` writes them below when
 * it compiles this class. It is no proxy, because a proxy may not throw what the interface does not declare, and Spark's parser throws other checked exceptions than `ParseException`.
 */
final class ParserMethods implements ParserInterface {
  final SparkParser parser;

  ParserMethods(SparkParser parser) {
    this.parser = parser;
  }

  // The methods of the interface.
}
