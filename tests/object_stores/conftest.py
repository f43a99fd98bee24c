"""Fixtures of the tests on emulators: each emulator runs once for all tests."""

from collections.abc import Iterator

import pytest
from tests.emulators import AZURE_ACCOUNT, ObjectStore, azurite, fake_gcs, moto, new_bucket, s3_properties

from icefloe.io.object_store_file_io import file_io_for


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore warnings of the stores' libraries about sessions that they leave to the garbage collector."""
    for item in items:
        if item.get_closest_marker("emulator") is not None:
            for text in (
                "ignore:unclosed:ResourceWarning",
                "ignore:Unclosed:ResourceWarning",
                "ignore:Sending a large body:ResourceWarning",
                "ignore::pytest.PytestUnraisableExceptionWarning",
            ):
                item.add_marker(pytest.mark.filterwarnings(text))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:GCS project not set"))


@pytest.fixture(scope="session")
def moto_address() -> Iterator[str]:
    """Start moto, and return its address."""
    with moto() as address:
        yield address


@pytest.fixture(scope="session")
def azurite_connection() -> Iterator[str]:
    """Start azurite, and return its connection string."""
    with azurite() as connection:
        yield connection


@pytest.fixture(scope="session")
def gcs_address() -> Iterator[str]:
    """Start fake-gcs-server, and return its address."""
    with fake_gcs() as address:
        yield address


@pytest.fixture
def s3(moto_address: str) -> ObjectStore:
    """Return an empty bucket of moto."""
    return ObjectStore(bucket=f"s3://{new_bucket(moto_address)}", properties=s3_properties(moto_address))


@pytest.fixture
def azure(azurite_connection: str, request: pytest.FixtureRequest) -> ObjectStore:
    """Return an empty container of azurite."""
    name = f"c{abs(hash(request.node.nodeid)):x}"
    properties = {"adls.connection-string": azurite_connection}
    bucket = f"abfss://{name}@{AZURE_ACCOUNT}.dfs.core.windows.net"
    store = file_io_for(bucket, properties).connect(bucket)
    if not store.exists(name):
        store.mkdir(name)
    return ObjectStore(bucket=bucket, properties=properties)


@pytest.fixture
def gcs(gcs_address: str, request: pytest.FixtureRequest) -> ObjectStore:
    """Return an empty bucket of fake-gcs-server."""
    name = f"c{abs(hash(request.node.nodeid)):x}"
    properties = {"gcs.service.host": gcs_address, "gcs.no-auth": "true", "gcs.project-id": "test"}
    store = file_io_for("gs://b/x", properties).connect("gs://b/x")
    if not store.exists(name):
        store.mkdir(name)
    return ObjectStore(bucket=f"gs://{name}", properties=properties)


@pytest.fixture(params=["s3", "azure", "gcs"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    """Return an empty bucket of each kind of store."""
    found: ObjectStore = request.getfixturevalue(request.param)
    return found
