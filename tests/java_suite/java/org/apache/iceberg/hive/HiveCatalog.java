package org.apache.iceberg.hive;

import org.apache.iceberg.jdbc.JdbcCatalog;

/** Takes the place of Java's Hive catalog in the tests: Java's catalog over the SQLite file that Icefloe's SQL catalog uses. */
public class HiveCatalog extends JdbcCatalog {}
