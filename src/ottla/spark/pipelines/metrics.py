"""The state of a run as Prometheus metrics, over HTTP: `GET /metrics`."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ottla.spark.not_ready import NotReady

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_REQUEST_SECONDS_MAX = 5.0
Status = Mapping[str, Any]
_Sample = tuple[dict[str, str], float]

_OF_A_FLOW: tuple[tuple[str, str, str, Callable[[Status], float | None]], ...] = (
    ("up", "gauge", "1 while the flow runs.", lambda flow: flow["state"] == "running"),
    ("restarts_total", "counter", "How often the flow was started again after a failure.", lambda f: f["restarts"]),
    ("rows_read_total", "counter", "Records that were read since the run began.", lambda f: f["read_total"]),
    ("rows_written_total", "counter", "Rows that were written, without dead letters.", lambda f: f["written_total"]),
    ("dead_letters_total", "counter", "Records that could not be read.", lambda f: f["dead_total"]),
    ("lag_records", "gauge", "Records between what was read and the end of the topics.", lambda f: f["lag"]),
    ("batch", "gauge", "The number of the last batch.", lambda f: f["batch"]),
    ("batch_seconds", "gauge", "How long the last batch took.", lambda f: f["trigger_ms"] / 1000),
    ("state_rows", "gauge", "Rows in the state of joins and sums.", lambda f: f["state_rows"]),
    ("watermark_seconds", "gauge", "Nothing older than this time is waited for.", lambda f: _seconds(f["watermark"])),
)


def exposition(status: Status) -> str:
    """The text that a scraper gets."""
    pipeline = str(status["pipeline"])
    lines: list[str] = []
    for name, kind, help_text, value_of in _OF_A_FLOW:
        samples = [({"flow": flow}, value_of(state)) for flow, state in status["flows"].items()]
        lines += _family(pipeline, name, kind, help_text, [(labels, v) for labels, v in samples if v is not None])
    phases = [
        ({"flow": flow, "phase": phase}, ms / 1000)
        for flow, state in status["flows"].items()
        for phase, ms in state["phases_ms"].items()
    ]
    lines += _family(pipeline, "phase_seconds", "gauge", "How long each phase of the last batch took.", phases)
    return "\n".join(lines) + "\n"


def _family(pipeline: str, name: str, kind: str, help_text: str, samples: list[_Sample]) -> Iterator[str]:
    full = f"ottla_pipeline_{name}"
    yield f"# HELP {full} {help_text}"
    yield f"# TYPE {full} {kind}"
    for labels, value in samples:
        every = {"pipeline": pipeline, **labels}
        text = ",".join(f'{label}="{value_.translate(_ESCAPES)}"' for label, value_ in every.items())
        yield f"{full}{{{text}}} {float(value):.15g}"


def _seconds(watermark: str) -> float | None:
    if not watermark or watermark.startswith("1970-01-01T00:00:00"):
        return None
    return datetime.fromisoformat(watermark).timestamp()


@contextmanager
def served(address: str, status: Callable[[], Status]) -> Iterator[str]:
    """Serve the metrics at HOST:PORT as long as this lasts; the address that was bound is given."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or not host:
        raise NotReady(f"metrics are served at HOST:PORT, not at {address!r}")

    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS_MAX

        def do_GET(self) -> None:
            is_known = self.path.split("?")[0] == "/metrics"
            body = exposition(status()).encode() if is_known else b""
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """A scrape is no event."""

    try:
        server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
    except (OSError, OverflowError) as failure:
        raise NotReady(f"metrics cannot be served at {address}: {failure}") from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
