"""Compiled code is kept for the next process, wherever this one may write; where it may not, it runs all the same."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ottla

pytestmark = pytest.mark.timeout(400)  # each process compiles, which is slow on a machine that has much to do

PROGRAM = """
from ottla.spark.arrow.decode import RecordDecoder
from ottla.spark.arrow.visible import Fetched
from ottla.wire.batch import encode_batch, new_records
batch = encode_batch(new_records([(b"k", b"v")] * 5, 0))
print(RecordDecoder().decode(Fetched("t", 0, batch)).row_count)
"""
FORKING = f"""
import os
import pyarrow
children = []
for _ in range(2):
    child = os.fork()
    if not child:
        try:
            exec({PROGRAM!r})
        except BaseException:
            os._exit(1)
        os._exit(0)
    children.append(child)
print(5 if all(os.waitpid(child, 0)[1] == 0 for child in children) else 0)
"""
ROOMS = ("__init__.py", "base", "wire", "spark")


def run(path: Path, temporary: Path, program: str = PROGRAM) -> int:
    """The program with the package at `path`, without a home; `temporary` is where temporary files go."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(path), "HOME": "/dev/null", "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", _with_packages(program)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    return int(done.stdout)


def _with_packages(program: str) -> str:
    """`-S` keeps the installed package away, which lies where it can be written."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    return f"import sys; sys.path += {packages!r}\n{program}"


def written(place: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in place.rglob("*.nbc")}


@pytest.fixture
def unwritable(tmp_path: Path) -> Path:
    """A copy of the package where nothing can be written next to the kernels, not even by root."""
    package = Path(ottla.__file__).parent
    target = tmp_path / "read-only" / "ottla"
    target.mkdir(parents=True)
    for name in ROOMS:
        source = package / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
    (target / "spark" / "arrow" / "__pycache__").write_text("in the way")
    return target.parent


def test_without_a_writable_place_a_private_one_is_made_and_shared(unwritable: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    assert run(unwritable, temporary) == 5
    place = temporary / f"ottla-numba-{os.getuid()}"
    first = written(place)
    assert first
    assert place.stat().st_mode & 0o077 == 0
    assert run(unwritable, temporary) == 5
    assert written(place) == first


def test_a_private_place_that_others_can_write_is_not_used(unwritable: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    place = temporary / f"ottla-numba-{os.getuid()}"
    place.mkdir(parents=True)
    place.chmod(0o777)
    assert run(unwritable, temporary) == 5
    assert not written(place)


def test_a_package_in_a_zip_finds_what_it_compiled_wherever_the_zip_is(unwritable: Path, tmp_path: Path) -> None:
    archive = tmp_path / "shipped.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(unwritable.rglob("*.py")):
            packed.write(path, path.relative_to(unwritable))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    assert run(archive, temporary) == 5
    first = written(temporary)
    assert first
    assert run(Path(shutil.copy(archive, tmp_path / "shipped-again.zip")), temporary) == 5
    assert written(temporary) == first


def test_workers_that_are_forked_side_by_side_share_what_they_compile(unwritable: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    assert run(unwritable, temporary, FORKING) == 5
    first = written(temporary)
    assert first
    assert run(unwritable, temporary, FORKING) == 5
    assert written(temporary) == first
