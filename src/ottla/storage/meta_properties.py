"""Whose directory this is: `meta.properties` in a log directory, `partition.metadata` in a partition's."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from ottla.base.types import ZERO_UUID, Uuid, uuid_from_text, uuid_text
from ottla.storage.files import Files

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"

_VERSIONS = ("0", "1")


class BadMetadata(ValueError):
    """A file that does not say whose directory this is, or says it wrongly."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: Uuid
    node_id: int
    directory_id: Uuid | None
    """None in a directory of version 0, which had none."""


def new_uuid() -> Uuid:
    """A random one whose text no command line takes for a flag."""
    while True:
        uuid = Uuid(uuid4().bytes)
        if not uuid_text(uuid).startswith("-"):
            return uuid


def encode_meta_properties(properties: MetaProperties) -> bytes:
    lines = ["#", "version=1", f"cluster.id={uuid_text(properties.cluster_id)}", f"node.id={properties.node_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={uuid_text(properties.directory_id)}")
    return "\n".join([*lines, ""]).encode("ascii")


def decode_meta_properties(data: bytes) -> MetaProperties:
    values = _properties(data)
    version = values.get("version", "0")
    if version not in _VERSIONS:
        raise BadMetadata(f"version {version[:20]} is not known")
    node_id = values.get("node.id" if version == "1" else "broker.id", "")
    if not (node_id.isascii() and node_id.isdigit()):
        raise BadMetadata(f"the node's id is {node_id[:20]!r}")
    if "cluster.id" not in values:
        raise BadMetadata("there is no cluster.id")
    directory_id = values.get("directory.id")
    return MetaProperties(
        cluster_id=_uuid(values["cluster.id"]),
        node_id=int(node_id),
        directory_id=_uuid(directory_id) if directory_id is not None else None,
    )


def _properties(data: bytes) -> dict[str, str]:
    """The part of Java's properties format that this file uses."""
    values = {}
    for line in data.decode("latin-1").splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            key, _, value = stripped.partition("=")
            values[key.strip()] = value.strip()
    return values


def _uuid(text: str) -> Uuid:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise BadMetadata(str(error)) from error


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode("ascii")


def decode_partition_metadata(data: bytes) -> Uuid:
    lines = [line.partition(":") for line in data.decode("latin-1").splitlines() if line.strip()]
    values = {key.strip(): value.strip() for key, _, value in lines}
    if values.get("version") != "0" or "topic_id" not in values:
        raise BadMetadata("not a version 0 and a topic_id")
    topic_id = _uuid(values["topic_id"])
    if topic_id == ZERO_UUID:
        raise BadMetadata("the topic id is zero")
    return topic_id


def read_topic_id(files: Files, directory: str) -> Uuid | None:
    """The topic that a partition's directory belongs to; None if it does not say so legibly."""
    path = f"{directory}/{PARTITION_METADATA}"
    if not files.exists(path):
        return None
    try:
        return decode_partition_metadata(files.read(path))
    except BadMetadata:
        return None


def write_topic_id(files: Files, directory: str, topic_id: Uuid, *, sync: bool = True) -> None:
    files.write_atomically(f"{directory}/{PARTITION_METADATA}", encode_partition_metadata(topic_id), sync)
