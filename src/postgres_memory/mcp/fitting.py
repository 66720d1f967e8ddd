"""How answers are kept within bounds: who gets how many characters, and what of a text or a list fits into them."""

from __future__ import annotations

from collections.abc import Sequence


def rooms(sizes: Sequence[int], room: int) -> list[int]:
    """Share ``room`` among things of these sizes: all of it where all fit, else the large ones are cut to one size."""
    shares = [0] * len(sizes)
    left = room
    by_size = sorted(range(len(sizes)), key=sizes.__getitem__)
    for done, index in enumerate(by_size):
        shares[index] = min(sizes[index], left // (len(sizes) - done))
        left -= shares[index]
    return shares


def fitting(sizes: Sequence[int], room: int) -> int:
    """Return how many of the first things of these sizes fit into ``room``, and at least one where there are any."""
    used = 0
    for count, size in enumerate(sizes):
        used += size
        if used > room and count:
            return count
    return len(sizes)
