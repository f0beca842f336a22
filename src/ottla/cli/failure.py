"""How a command says no: one line on stderr and an exit code, never a traceback."""

OK = 0
FAILED = 1
MISUSED = 2
INTERRUPTED = 130


class Failed(Exception):
    """The command was understood and could not be done; the text says why, in one line."""


class Misused(Failed):
    """The command makes no sense as given: an option's value, or two options that exclude each other."""


class Unreachable(Failed):
    """Nobody answers there; says what may help."""

    def __init__(self, where: str, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(f"cannot reach {where}: {why}; `ottla start` runs a node, --bootstrap HOST:PORT names another")
