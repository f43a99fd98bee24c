"""`icefloe version`: what it reports of the codec of manifests."""

from dataclasses import replace

from icefloe.cli.installed_versions import versions


def test_a_wheel_without_the_compiled_codec_is_reported_with_the_remedy() -> None:
    text = " ".join(str(replace(versions(), manifest_codec="fastavro")).split())
    assert "fastavro (slower: this wheel has no compiled codec; install the wheel for your platform)" in text
    assert "slower" not in str(replace(versions(), manifest_codec="compiled"))
