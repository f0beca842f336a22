import pytest

from ottla.base.types import Uuid, uuid_text
from ottla.storage.meta_properties import (
    BadMetadata,
    MetaProperties,
    decode_meta_properties,
    decode_partition_metadata,
    encode_meta_properties,
    encode_partition_metadata,
    new_uuid,
)

ONE, TWO = Uuid(bytes(range(16))), Uuid(bytes(range(16, 32)))


def test_properties_come_back() -> None:
    properties = MetaProperties(ONE, 3, TWO)
    assert decode_meta_properties(encode_meta_properties(properties)) == properties


def test_the_file_is_read_as_java_writes_it() -> None:
    ids = f"cluster.id={uuid_text(ONE)}\nversion=1\ndirectory.id={uuid_text(TWO)}\n"
    text = f"#\n#Wed Nov 18 20:00:00 UTC 2026\n{ids}node.id=1\n"
    assert decode_meta_properties(text.encode()) == MetaProperties(ONE, 1, TWO)


def test_version_0_names_the_broker() -> None:
    text = f"version=0\nbroker.id=4\ncluster.id={uuid_text(ONE)}\n"
    assert decode_meta_properties(text.encode()) == MetaProperties(ONE, 4, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version=2\nnode.id=1\ncluster.id=AAECAwQFBgcICQoLDA0ODw",
        "version=1\nnode.id=1",
        "version=1\nnode.id=-1\ncluster.id=x",
        "version=1\nnode.id=1\ncluster.id=too-short",
        "version=1\nbroker.id=1\ncluster.id=AAECAwQFBgcICQoLDA0ODw",
    ],
)
def test_properties_that_do_not_say_whose_the_directory_is_are_refused(text: str) -> None:
    with pytest.raises(BadMetadata):
        decode_meta_properties(text.encode())


def test_a_topic_id_comes_back_without_a_last_line_break() -> None:
    assert encode_partition_metadata(ONE) == f"version: 0\ntopic_id: {uuid_text(ONE)}".encode()
    assert decode_partition_metadata(encode_partition_metadata(ONE)) == ONE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        "version: 0\ntopic_id: " + "A" * 22,
        "version: 0\ntopic_id: x",
    ],
)
def test_a_topic_id_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadMetadata):
        decode_partition_metadata(text.encode())


def test_a_new_uuid_is_never_taken_for_a_flag() -> None:
    assert not any(uuid_text(new_uuid()).startswith("-") for _ in range(300))
