"""Random changes of stored inputs, with which a parser must keep its contract. `make fuzz` is guided by coverage."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from random import Random

from fuzz_targets import TARGETS
from kept_corpus import stored_inputs

INPUTS = 1500


def soak(number: int) -> Counter[str]:
    """Test one parser with random inputs; parser and inputs depend only on the number."""
    name = list(TARGETS)[number % len(TARGETS)]
    chance = Random(number)
    corpus = stored_inputs(name)
    for _ in range(INPUTS):
        data = changed(chance.choice(corpus), corpus, chance)
        try:
            TARGETS[name](data)
        except BaseException:
            print(f"{name} on {b64encode(data).decode()} (base64)")
            raise
    return Counter({f"inputs of {name}": INPUTS})


def changed(data: bytes, corpus: list[bytes], chance: Random) -> bytes:
    """Return an input with random changes: flipped bits, removed, new or repeated bytes, or another input's end."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(made))
        match chance.randrange(5):
            case 0 if at < len(made):
                made[at] ^= 1 << chance.randrange(8)
            case 1:
                del made[at : at + chance.randint(1, 8)]
            case 2:
                made[at:at] = chance.randbytes(chance.randint(1, 8))
            case 3:
                made[at:at] = made[at : at + chance.randint(1, 64)]
            case _:
                other = chance.choice(corpus)
                made[at:] = other[chance.randint(0, len(other)) :]
    return bytes(made)
