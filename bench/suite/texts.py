"""What is stored and asked: a pure function of a number, the same for every contestant, run and machine.

Standard library only, since it runs in the environments of the peers as well.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

_WHO = """
    the user|our team|a customer|the landlord|my sister|the vendor|an auditor|the new colleague|their lawyer|a neighbour
    the night nurse|one reviewer|the choir|her manager|a visitor|the caretaker
"""
_DID = """
    prefers|cancelled|ordered|returned|asked about|repaired|moved|forgot|recommends|paid for|complained about
    photographed|is looking for|translated|postponed|insists on
"""
_WHAT = """
    dark mode|the blue bicycle|a window seat|green tea|the spare key|two invoices|the old router|a vegetarian menu
    the staging server|our travel budget|a second blanket|the lease|an oak table|the monthly report|a ferry ticket
    the alarm clock|the password policy|a cello lesson|the data export|fresh bread|the parking permit|a river cruise
    the backup schedule|an umbrella|the garden fence|a phone case|the wedding photos|the tax form|a dentist appointment
    the release notes|hiking boots|the guest list
"""
_WHY = """
    because the last one broke|before the end of May|after the call on Monday|to save some money|while it is on sale
    since nobody answered|without telling the office|as agreed in Lisbon|until the doctor says otherwise
    for the flat upstairs|in spite of the rain|when the trains stood still|instead of the cheaper one
    so that the children can come|by a narrow vote|on behalf of the board
"""


def _phrases(text: str) -> list[str]:
    return [phrase.strip() for line in text.strip().splitlines() for phrase in line.split("|")]


_PARTS = [_phrases(_WHO), _phrases(_DID), _phrases(_WHAT), _phrases(_WHAT), _phrases(_WHY)]

#: Topics by the share of memories that have them. What is left has the topic ``rest``.
SHARES = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01, "rare": 0.0001}


def sentence(number: int) -> str:
    """Return a sentence of about 100 characters."""
    left = int.from_bytes(blake2b(number.to_bytes(8, "big", signed=True), digest_size=8).digest(), "big")
    chosen = []
    for phrases in _PARTS:
        left, place = divmod(left, len(phrases))
        chosen.append(phrases[place])
    who, did, what, other, why = chosen
    return f"On day {left % 365 + 1} {who} {did} {what}, not {other}, {why}."


def question(number: int) -> str:
    """Return a sentence like those that are stored, and (but for rare luck) none of them."""
    return sentence(-number - 1)


def topic(number: int) -> str:
    """Return which of `SHARES` a memory belongs to."""
    if number % 2 == 0:
        return "half"
    if number % 10 == 1:
        return "tenth"
    if number % 100 == 3:
        return "hundredth"
    return "rare" if number % 10_000 == 5 else "rest"


def item(number: int) -> tuple[str, dict[str, Any]]:
    """Return the content and metadata of a memory."""
    return sentence(number), {"topic": topic(number), "i": number}


def id_of(number: int) -> str:
    """Return the id of a memory, where one is given."""
    return f"m{number}"
