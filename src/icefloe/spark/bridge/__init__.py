"""How Spark's connector objects call Python: callbacks, messages, errors, the Java classes and their compiler."""
