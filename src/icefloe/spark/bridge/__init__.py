"""The bridge by which Spark's connector objects in the JVM call Python: callbacks, messages, errors, the Java classes and their compiler."""
