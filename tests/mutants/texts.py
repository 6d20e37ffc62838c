"""Broken texts out of good ones, of programs and of schedules: characters and words changed, pieces of others put in."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

_WORDS = re.compile(r"\w+|[^\w\s]|\s+")
_PIECES = ("0", "-1", "1", "9223372036854775807", "9223372036854775808", "1e400", "(", ")", "[", "]", "{", "}", ":", ",", ";",
           "\n", "-", "//", "%", "0 ", "*", "where", "for", "in", "else", "?", "&&", "!", "\t", "\0", "é", "#", "\"", "->", "=",
           "+=", "max=", "child:", "- filter:", "inf", "i", "S1", "mod", "floor", "exists", "and", "or", "$", "<=", "' ")


def mutant(r: random.Random, seeds: Sequence[str]) -> str:
    """A text made from one of the seeds."""
    text = r.choice(seeds)
    for _ in range(r.choice((1, 1, 1, 2, 3, 8))):
        text = _words(r, text, seeds) if r.random() < 0.5 else _characters(r, text)
    return text


def _characters(r: random.Random, text: str) -> str:
    at = r.randrange(len(text) + 1)
    match r.randrange(5):
        case 0:
            return text[:at] + text[at + 1:]
        case 1:
            return text[:at] + text[at:at + 1] * 2 + text[at + 1:]
        case 2:
            return text[:at] + text[at + 1:at + 2] + text[at:at + 1] + text[at + 2:]
        case 3:
            return text[:at] + r.choice(_PIECES) + text[at:]
        case _:
            return text[:at] + chr(r.randrange(32, 127)) + text[at + 1:]


def _words(r: random.Random, text: str, seeds: Sequence[str]) -> str:
    words = _WORDS.findall(text) or [""]
    at, other = r.randrange(len(words)), r.randrange(len(words))
    match r.randrange(6):
        case 0:
            del words[at:at + r.choice((1, 1, 3))]
        case 1:
            words[at:at] = words[at:at + r.choice((1, 2, 6))]
        case 2:
            words[at], words[other] = words[other], words[at]
        case 3:
            words[at] = r.choice(_PIECES)
        case 4:
            words[at] = words[other]
        case _:
            donor = _WORDS.findall(r.choice(seeds)) or [""]
            start = r.randrange(len(donor))
            words[at:at] = donor[start:start + r.choice((1, 3, 12))]
    return "".join(words)
