"""The certificates that tests trust.

Every REST catalog loads the certificates that this machine trusts, which takes 30 ms. No test uses TLS with another machine: one certificate, of which no key
exists, is enough. Programs that install packages get the environment of the machine.
"""

import os
from pathlib import Path

ENVIRONMENT_OF_THE_MACHINE = dict(os.environ)


def trust_one_certificate() -> None:
    """Trust one certificate in this process and in those that it starts."""
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("trusted.pem"))
