"""A node under siege: what is thrown at it, and what must hold after every throw."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from pathlib import Path

from tests.compat.brokers import Broker
from tests.compat.raw import LATEST, Raw

ANSWER_SECONDS_MAX = 10.0
# How many times the usual number of mutants; for a long night.
ROUNDS = int(os.environ.get("OTTLA_FUZZ_ROUNDS", "1"))
GROWTH_BYTES_MAX = 96 << 20
PEAK_BYTES_MAX = 160 << 20
ANSWERED, CLOSED, SILENT = "answered", "closed", "silent"


class Siege:
    """Throws frames over one connection as long as the node keeps it, and watches the node meanwhile."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.thrown = 0
        self._line: socket.socket | None = None
        self.honest = Raw(broker.host, broker.port)
        self._topic = self.honest.create("honest")
        self.target = self.honest.create("target")
        self._end = 0
        self._settle()

    def _settle(self) -> None:
        """Memory is measured from where an honest client has left it; the peak is forgotten."""
        for _ in range(50):
            self.check_honest_client()
        self._rss_start = self._memory("VmRSS")
        Path(f"/proc/{self.broker.pid}/clear_refs").write_text("5")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.broker.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) << 10

    def connect(self) -> socket.socket:
        return socket.create_connection((self.broker.host, self.broker.port), timeout=ANSWER_SECONDS_MAX)

    def throw(self, payload: bytes, seconds_max: float = ANSWER_SECONDS_MAX) -> str:
        """Send one frame: it is answered with a well-formed frame, or the connection is closed."""
        self.thrown += 1
        if self._line is None:
            self._line = self.connect()
        self._line.settimeout(seconds_max)
        try:
            self._line.sendall(struct.pack(">i", len(payload)) + payload)
            answer = self._receive_frame(self._line)
        except TimeoutError:
            self.hang_up()
            return SILENT
        except (ConnectionError, EOFError):
            self.hang_up()
            return CLOSED
        assert answer[:4] == payload[4:8], f"answer to {answer[:4].hex()} instead of {payload[4:8].hex()}"
        return ANSWERED

    def hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line = None

    @staticmethod
    def _receive_frame(line: socket.socket) -> bytes:
        (size,) = struct.unpack(">i", _receive(line, 4))
        assert 4 <= size <= 64 << 20, f"an answer of {size} bytes"
        return _receive(line, size)

    def check_honest_client(self) -> None:
        assert self.honest.append(self._topic, b"still here") == self._end
        self._end += 1
        assert self.honest.batches(self._topic, self._end - 1)[0].base_offset == self._end - 1

    def check(self) -> None:
        """The node lives, serves others, has not grown, and has logged no bug."""
        assert self.broker.running, self.broker.log_text()[-4000:]
        self.check_honest_client()
        assert self.honest.list_offset(self._topic, LATEST)["offset"] == self._end
        log = self.broker.log_text()
        assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
        growth, peak = self._memory("VmRSS") - self._rss_start, self._memory("VmHWM") - self._rss_start
        assert growth <= GROWTH_BYTES_MAX, f"{growth >> 20} MB more than before"
        assert peak <= PEAK_BYTES_MAX, f"{peak >> 20} MB more than before, for a while"

    def end(self) -> None:
        self.hang_up()
        with contextlib.suppress(OSError):
            self.honest.socket.close()


def _receive(line: socket.socket, count: int) -> bytes:
    got = bytearray()
    while len(got) < count:
        chunk = line.recv(min(count - len(got), 1 << 20))
        if not chunk:
            raise EOFError(f"{len(got)} of {count} bytes")
        got += chunk
    return bytes(got)
