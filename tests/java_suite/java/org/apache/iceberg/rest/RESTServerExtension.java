package org.apache.iceberg.rest;

import java.util.Map;
import org.junit.jupiter.api.extension.Extension;

/** Takes the place of the REST server of Java's tests: none is started, and its catalog has an address that nothing is asked at. */
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
