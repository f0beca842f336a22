"""Every length in every request overwritten; and requests with bytes changed anywhere."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from kio.schema.index import api_key_map

from .requests import APIS, shapes
from .siege import ANSWERED, CLOSED, ROUNDS, SILENT, Siege

MUTANTS = 500
PATIENCE_SECONDS = 0.25
MAY_BE_SILENT = {"produce", "fetch"}  # acks 0, and a long max wait


def test_every_api_the_node_advertises_is_under_siege(siege: Siege) -> None:
    advertised = {entry["api_key"] for entry in siege.honest.ask("api_versions", 0)["api_keys"]}
    assert {api_key_map[key] for key in advertised} <= set(APIS)


@pytest.mark.parametrize("api", APIS)
def test_good_request_is_answered(siege: Siege, api: str) -> None:
    for shape in shapes(siege.honest, siege.target, api):
        assert siege.throw(shape.frame()) == ANSWERED, f"{api} v{shape.version}"


@pytest.mark.parametrize("api", APIS)
def test_no_length_in_a_request_hurts_the_node(siege: Siege, api: str) -> None:
    seen: Counter[str] = Counter()
    for shape in shapes(siege.honest, siege.target, api):
        for at, data in shape.bad_lengths():
            outcome = siege.throw(shape.frame(at, data))
            assert outcome != SILENT, f"{api} v{shape.version}: part {at} replaced by {data.hex()} is never answered"
            seen[outcome] += 1
    siege.check()
    assert seen[CLOSED] > 0 or api == "describe_cluster"


@pytest.mark.parametrize("api", APIS)
def test_no_change_of_bytes_in_a_request_hurts_the_node(siege: Siege, api: str) -> None:
    chance = random.Random(f"bytes of {api}")
    goods = [shape.frame() for shape in shapes(siege.honest, siege.target, api)]
    for number in range(MUTANTS * ROUNDS):
        mutant = mutate(chance, chance.choice(goods))
        outcome = siege.throw(mutant, PATIENCE_SECONDS if api in MAY_BE_SILENT else 10)
        assert outcome != SILENT or api in MAY_BE_SILENT, f"mutant {number} is never answered: {mutant.hex()}"
    siege.check()


def mutate(chance: random.Random, good: bytes) -> bytes:
    """A few changes behind the API key: those of other APIs have mutants of their own."""
    bytes_ = bytearray(good)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(8, len(bytes_))
        match chance.randrange(6):
            case 0:
                bytes_[at] ^= 1 << chance.randrange(8)
            case 1:
                bytes_[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
            case 2:
                bytes_[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", bytes(4)))
            case 3:
                del bytes_[at : at + chance.randrange(1, 9)]
            case 4:
                bytes_[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 5:
                bytes_[at:at] = bytes_[max(8, at - 16) : at]
        if len(bytes_) <= 9:
            break
    return bytes(bytes_)
