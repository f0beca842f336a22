"""What a change came to, for each of several things by name."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import AdminClient

from ottla.cli.connection import Target, reason
from ottla.cli.failure import Failed
from ottla.cli.output import print_json


@dataclass(frozen=True)
class Outcome:
    """How to tell it: what the things are, what was done to them, and which refusals are as good as success."""

    noun: str
    done: str
    tolerated: Collection[int] = ()
    as_json: bool = False


def report(target: Target, admin: AdminClient, futures: Mapping[str, Any], outcome: Outcome) -> None:
    """The first refusal is the command's failure, but none hides what became of the others."""
    told, refused = [], []
    for name, future in futures.items():
        error = target.refusal(future, admin)
        if error is not None and error.code() not in outcome.tolerated:
            refused.append(f"{name}: {reason(error)}")
            continue
        done = outcome.done if error is None else f"needs nothing: {reason(error)}"
        told.append({outcome.noun: name, "outcome": done})
        if not outcome.as_json:
            print(f"{name} {done}")
    if outcome.as_json:
        print_json(told)
    if refused:
        raise Failed("; ".join(refused))
