package org.apache.iceberg.rest;

import java.util.Map;
import org.junit.jupiter.api.extension.Extension;

/** A replacement for the REST server of Java's tests: no server is started, and its catalog has an address without a server. */
public class RESTServerExtension implements Extension {
  public static final String FREE_PORT = "0";

  public RESTServerExtension() {}

  public RESTServerExtension(Map<String, String> config) {}

  public RESTCatalog client() {
    return new RESTCatalog() {
      @Override
      public Map<String, String> properties() {
        return Map.of("uri", "http://localhost:0");
      }
    };
  }
}
