"""Partitions, as people name them: `TOPIC` or `TOPIC:0,2` when asked for, `TOPIC-0` when shown."""

from ottla.cli.failure import Failed, Misused

Place = tuple[str, int]
"""Topic and partition."""
Wanted = tuple[str, tuple[int, ...] | None]
"""A topic, and which of its partitions if not all."""


def place_name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def parse_wanted(text: str, option: str) -> Wanted:
    """`TOPIC` or `TOPIC:0,2`; a topic's name has no colon."""
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    if not all(number.isascii() and number.isdecimal() for number in numbers.split(",")):
        raise Misused(f"{option} takes TOPIC or TOPIC:0,1,2, not {text!r}")
    return name, tuple(int(number) for number in numbers.split(","))


def chosen(wanted: Wanted, there: set[Place]) -> list[Place]:
    name, numbers = wanted
    known = [place for place in there if place[0] == name]
    if not known:
        raise Failed(f"there is no {name}")
    places = known if numbers is None else [(name, number) for number in numbers]
    missing = [place_name(place) for place in places if place not in there]
    if missing:
        raise Failed(f"there is no {', '.join(missing)}")
    return sorted(places)
