"""`python -m tools.gen` rewrites every generated module; with `--check` it only says whether one would change."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.gen.index import index_text
from tools.gen.kio_source import read_messages
from tools.gen.model import Message
from tools.gen.module import HEAD, module_text
from tools.gen.schema_source import read_schema
from tools.gen.state_modules import STATE_MODULES

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = Path("src/ottla/wire/messages")
STATE = Path("src/ottla/wire/state")
SCHEMAS = Path("schemas")
OWN_APIS = SCHEMAS / "apis"


def generate() -> dict[Path, str]:
    """Every generated file with its text."""
    found = read_messages()
    apis = {name: parts for name, parts in found.items() if "request" in parts} | _own_apis()
    files = {
        MESSAGES / f"{name}.py": module_text(f"{name}: request and response.", [parts["request"], parts["response"]])
        for name, parts in apis.items()
    }
    files[MESSAGES / "index.py"] = index_text(apis)
    for module, names in STATE_MODULES.items():
        records: list[Message] = [found[name]["data"] for name in names]
        files[STATE / f"{module}.py"] = module_text(f"{module}: what batches carry beside user records.", records)
    for path in sorted((ROOT / SCHEMAS).glob("*.schema")):
        files[STATE / f"{path.stem}.py"] = module_text(f"{path.stem}: log records.", read_schema(path), tables=True)
    return files


def _own_apis() -> dict[str, dict[str, Message]]:
    """APIs that Kafka does not have, one file each: a request and a response."""
    pairs = {path.stem: read_schema(path) for path in sorted((ROOT / OWN_APIS).glob("*.schema"))}
    return {name: {"request": request, "response": response} for name, (request, response) in pairs.items()}


def stale_files(files: dict[Path, str]) -> list[Path]:
    """Generated files that no schema stands behind any more."""
    here = [p.relative_to(ROOT) for folder in (MESSAGES, STATE) for p in sorted((ROOT / folder).glob("*.py"))]
    return [p for p in here if p not in files and (ROOT / p).read_text().startswith(HEAD)]


def main() -> int:
    files = generate()
    stale = stale_files(files)
    changed = [p for p, text in files.items() if not (ROOT / p).exists() or (ROOT / p).read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in [*changed, *stale]:
            print(f"{path} is not what tools/gen writes", file=sys.stderr)
        return 1 if changed or stale else 0
    for path in changed:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(files[path])
    for path in stale:
        (ROOT / path).unlink()
    print(f"{len(files)} files, {len(changed)} written, {len(stale)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
