"""Where Protobuf's messages are described: compiled descriptor sets, or `.proto` files and a compiler for them."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from ottla.spark.formats.format import BadSchema
from ottla.spark.not_ready import NotReady

_ALWAYS_KNOWN = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
}
_COMPILER_SECONDS_MAX = 60


def compile_proto(path: Path, include: Sequence[Path] = ()) -> bytes:
    """The descriptor set of a `.proto` file and all that it imports, from its directory or those to include."""
    if find_spec("grpc_tools") is None:
        raise NotReady(f"to compile {path} needs a compiler: pip install 'ottla[proto]', or give a descriptor set")
    with tempfile.TemporaryDirectory(prefix="ottla-proto-") as directory:
        out = Path(directory) / "set"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "grpc_tools.protoc",
                "--include_imports",
                f"--descriptor_set_out={out}",
                *(f"--proto_path={place.resolve()}" for place in (path.parent, *include)),
                str(path.resolve()),
            ],
            capture_output=True,
            text=True,
            timeout=_COMPILER_SECONDS_MAX,
        )
        if done.returncode:
            raise BadSchema(f"{path} does not compile: {done.stderr.strip()}")
        return out.read_bytes()


def find_message(descriptor_set: bytes, name: str | None) -> Descriptor:
    """The message of that name, with or without its package; it may be left out where there is only one."""
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
    except DecodeError:
        raise BadSchema("not a compiled descriptor set (protoc --descriptor_set_out)") from None
    pool, names = descriptor_pool.DescriptorPool(), []
    by_name = {file.name: file for file in files}
    added: set[str] = set()
    for file in files:
        _add(pool, file.name, by_name, added)
        package = f"{file.package}." if file.package else ""
        if file.name not in _ALWAYS_KNOWN:
            names += [package + message.name for message in file.message_type]
    found = [known for known in names if name is None or known == name or known.rpartition(".")[2] == name]
    if len(found) == 1:
        return pool.FindMessageTypeByName(found[0])
    try:
        return pool.FindMessageTypeByName(name or "")  # one inside of another
    except KeyError:
        problem = "which message is meant" if name is None or found else f"there is no message {name}"
        raise BadSchema(f"{problem}? There are {', '.join(names) or 'none'}") from None


def _add(
    pool: descriptor_pool.DescriptorPool,
    name: str,
    files: dict[str, descriptor_pb2.FileDescriptorProto],
    added: set[str],
) -> None:
    if name in added:
        return
    added.add(name)
    file = files.get(name)
    if file is None:
        if name not in _ALWAYS_KNOWN:
            raise BadSchema(f"{name} is imported, but not in the descriptor set (protoc --include_imports)")
        file = descriptor_pb2.FileDescriptorProto()
        _ALWAYS_KNOWN[name].CopyToProto(file)
    for imported in file.dependency:
        _add(pool, imported, files, added)
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as fault:
        raise BadSchema(f"{name}: {fault}") from None
