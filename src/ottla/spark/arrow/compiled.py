"""How this room compiles: numba without the interpreter lock, and a cache that works wherever the package lies.

Numba keeps what it compiled beside the source or under the user's home, and refuses to decorate where neither can be
written: a read-only image without a home is enough. Then the cache goes into a directory of this user alone, since what
lies in it is run; and where that cannot be had either, every process compiles for itself.

Numba looks only at the file of the function that is called: a kernel and all that it calls stand in one module, lest a
new version of the one be run with the old form of the other. Only those at the end are shared, which have no other
form, and what is a `part`.
"""

import os
import stat
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from numba import config as _config
from numba import njit, types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])
config: Any = _config
cgutils: Any = _cgutils


def compiled(kernel: _Kernel) -> _Kernel:
    """`kernel` as machine code, compiled when it is first called and loaded from the cache from then on."""
    _settle(kernel)
    return _cached(kernel) or _cached_apart(kernel) or inlined(kernel)


def inlined(function: _Kernel) -> _Kernel:
    """A part of kernels that is never called from Python and needs no cache of its own."""
    made: Any = njit(nogil=True, forceinline=True)(function)
    return made  # type: ignore[no-any-return]


def part(function: _Kernel) -> _Kernel:
    """A part of kernels that stands in another module than they: theirs has to change whenever that one does."""
    made: Any = njit(nogil=True)(function)
    return made  # type: ignore[no-any-return]


def _cached(kernel: _Kernel) -> _Kernel | None:
    try:
        made: Any = njit(nogil=True, cache=True)(kernel)
    except RuntimeError:  # nowhere to write
        return None
    return made  # type: ignore[no-any-return]


def _cached_apart(kernel: _Kernel) -> _Kernel | None:
    directory, before = _private_directory(), config.CACHE_DIR
    if directory is None:
        return None
    config.CACHE_DIR = str(directory)
    try:
        return _cached(kernel)
    finally:
        config.CACHE_DIR = before


def _settle(kernel: Callable[..., Any]) -> None:
    """Give a kernel from a zip a file of its own: Spark unpacks nothing, and puts the zip elsewhere for every run.

    The file's place is told by its content, so that the next run finds what this one compiled.
    """
    path = Path(kernel.__code__.co_filename)
    loader: Any = kernel.__globals__.get("__loader__")
    directory = None if path.is_file() or not hasattr(loader, "get_source") else _private_directory()
    source = None if directory is None else loader.get_source(kernel.__module__)
    if directory is None or source is None:
        return
    place = directory / sha256(source.encode()).hexdigest() / path.name
    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        if not place.exists():
            draft = place.with_name(f"{path.name}.{os.getpid()}")  # others may be at it
            draft.write_text(source, encoding="utf-8")
            draft.replace(place)
    except OSError:
        return
    kernel.__code__ = kernel.__code__.replace(co_filename=str(place))


def _private_directory() -> Path | None:
    """A directory that only this user can write, the same one for all their processes."""
    place = Path(tempfile.gettempdir()) / f"ottla-numba-{os.getuid()}"
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        state = place.lstat()
    except OSError:
        return None
    is_ours = state.st_uid == os.getuid() and stat.S_ISDIR(state.st_mode) and not state.st_mode & 0o077
    return place if is_ours else None


def _untyped(function: Callable[..., Any]) -> Any:
    """An intrinsic, whose first parameter callers do not see."""
    return intrinsic(function)


@_untyped
def byte_at(_: Any, address: Any, at: Any) -> Any:
    """The byte `at` bytes behind `address`; checks nothing.

    Kernels hand addresses to their parts, not arrays: numba counts references around every call, for every byte read.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(builder, arguments[0], arguments[1]))

    return types.uint8(types.int64, types.int64), generate


@_untyped
def int_at(_: Any, address: Any, index: Any) -> Any:
    """Number `index` of the 32-bit integers from `address` on; checks nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = builder.mul(arguments[1], arguments[1].type(4))
        place = builder.inttoptr(builder.add(arguments[0], at), cgutils.int32_t.as_pointer())
        return builder.sext(builder.load(place, align=1), cgutils.intp_t)

    return types.int64(types.int64, types.int64), generate


@_untyped
def long_at(_: Any, address: Any, at: Any) -> Any:
    """The 64 bits that are `at` bytes behind `address`, in the order of the machine; checks nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(builder.add(arguments[0], arguments[1]), cgutils.intp_t.as_pointer())
        return builder.load(place, align=1)

    return types.int64(types.int64, types.int64), generate


@_untyped
def number_at(_: Any, address: Any, index: Any) -> Any:
    """Number `index` of the 64-bit integers from `address` on; checks nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_number_pointer(builder, arguments[0], arguments[1]), align=1)

    return types.int64(types.int64, types.int64), generate


@_untyped
def set_number(_: Any, address: Any, index: Any, value: Any) -> Any:
    """Write number `index` of the 64-bit integers from `address` on; checks nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _number_pointer(builder, arguments[0], arguments[1]), align=1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@_untyped
def set_int(_: Any, address: Any, index: Any, value: Any) -> Any:
    """Write number `index` of the 32-bit integers from `address` on, the lower half of `value`; checks nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = builder.mul(arguments[1], arguments[1].type(4))
        place = builder.inttoptr(builder.add(arguments[0], at), cgutils.int32_t.as_pointer())
        builder.store(builder.trunc(arguments[2], cgutils.int32_t), place, align=1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@_untyped
def set_byte(_: Any, address: Any, at: Any, value: Any) -> Any:
    """Write the byte `at` bytes behind `address`; checks nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _pointer(builder, arguments[0], arguments[1]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.uint8), generate


@_untyped
def copy_bytes(_: Any, target: Any, target_at: Any, source: Any, source_at: Any, size: Any) -> Any:
    """memcpy between two addresses, four times as fast as the loop that numba makes of slices; checks nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, source = (_pointer(builder, *arguments[index : index + 2]) for index in (0, 2))
        cgutils.raw_memcpy(builder, to, source, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


def _number_pointer(builder: Any, address: Any, index: Any) -> Any:
    at = builder.mul(index, index.type(8))
    return builder.inttoptr(builder.add(address, at), cgutils.intp_t.as_pointer())


def _pointer(builder: Any, address: Any, at: Any) -> Any:
    return builder.inttoptr(builder.add(address, at), cgutils.int8_t.as_pointer())
