"""Small results for tests: a few rows with figures that are easy to reckon with."""

from bench.race.arena import Row
from bench.race.result import Result

FACTS = {
    "finished": "2026-01-01",
    "machine": {"cores": 2, "memory GB": 8.0},
    "options": {"runs": 3, "scale": 1.0, "full": False, "only": ""},
    "clients": {"librdkafka": "2"},
    "contestants": {
        "ottla": {"version": "1", "runtime": "Python", "command": "ottla start", "settings": "none"},
        "kafka": {"version": "4", "runtime": "Java", "command": "java", "settings": ["node.id=1"], "logging": "WARN"},
    },
}


def race_of_three() -> Result:
    """Three runs: produce is won, p99 is missed, the client bounds one row on both sides."""
    result = Result(facts=dict(FACTS), absent={"replication": "no cluster yet"})
    for ours, theirs in ((300.0, 100.0), (310.0, 150.0), (290.0, 200.0)):
        for contestant, rate, cores in (("ottla", ours, 0.5), ("kafka", theirs, 0.95)):
            figures = {"MB/s": rate, "broker cpu s/GB": 100 / rate, "client cores": cores}
            result.add("produce", contestant, Row("1 kB", figures))
            bound = {"MB/s": rate / 10, "client cores": 0.97}
            result.add("produce", contestant, Row("100 B", bound, ["odd"] if contestant == "kafka" else []))
    for contestant, late in (("ottla", 9.0), ("kafka", 10.0)):
        for more in (0.0, 1.0, 2.0):
            result.add("latency", contestant, Row("1,000 records/s", {"p50 ms": 1.0, "p99 ms": late + more}))
    return result
