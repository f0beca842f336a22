"""The `ottla` command."""

import sys


def main() -> None:
    sys.exit("ottla: no command exists yet")
