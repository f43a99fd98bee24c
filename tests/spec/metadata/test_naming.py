"""Names of metadata files, as other implementations write and read them."""

import pytest

from icefloe.spec.metadata.naming import manifest_list_name, manifest_name, metadata_file_name, metadata_version

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def test_names_have_the_forms_that_other_engines_use() -> None:
    assert metadata_file_name(3, UUID) == f"00003-{UUID}.metadata.json"
    assert metadata_file_name(123456, UUID, gzip=True) == f"123456-{UUID}.gz.metadata.json"
    assert manifest_list_name(77, 2, UUID) == f"snap-77-2-{UUID}.avro"
    assert manifest_name(UUID, 0) == f"{UUID}-m0.avro"


@pytest.mark.parametrize("gzip", [False, True])
def test_the_version_is_read_from_a_file_name_of_icefloe(gzip: bool) -> None:
    assert metadata_version("s3://b/t/metadata/" + metadata_file_name(42, UUID, gzip=gzip)) == 42


@pytest.mark.parametrize(
    ("location", "version"),
    [
        ("/t/metadata/v7.metadata.json", 7),
        ("/t/metadata/v7.gz.metadata.json", 7),
        ("/t/metadata/v7.metadata.json.gz", 7),
        ("/00009-t/metadata/x.metadata.json", None),
        ("/t/metadata/00001.metadata.json", None),
        ("/t/metadata/version-hint.text", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_names_of_other_writers_but_never_guessed(location: str, version: int | None) -> None:
    assert metadata_version(location) == version
