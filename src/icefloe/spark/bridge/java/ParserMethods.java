package icefloe;

import org.apache.spark.sql.catalyst.parser.ParserInterface;

/**
 * The parser that a session calls: every method passes its call on to a `SparkParser`. The methods of the interface differ between versions of Spark, so `java_compiler.py` inserts them below
 * when it compiles this class. It is not a proxy of `java.lang.reflect`, because Spark's parser throws checked exceptions that the interface does not declare, and a proxy may not.
 */
final class ParserMethods implements ParserInterface {
  final SparkParser parser;

  ParserMethods(SparkParser parser) {
    this.parser = parser;
  }

  // The methods of the interface.
}
