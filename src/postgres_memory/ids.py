"""What a new memory gets by itself: an id, a UUID version 7, whose order is the order of creation, and a time."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime


def new_id(nanoseconds: int | None = None) -> str:
    """Return a UUIDv7 (RFC 9562, section 5.7) as text: milliseconds, 12 bits of a finer clock (method 3), 62 random.

    Its time is ``nanoseconds`` since 1970, now unless said otherwise.
    """
    if nanoseconds is None:
        nanoseconds = time.time_ns()
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    fraction = rest * 4096 // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    value = (milliseconds << 80) | (0x7 << 76) | (fraction << 64) | (0b10 << 62) | random
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def now() -> datetime:
    """Return the current time, aware and in UTC."""
    return datetime.now(UTC)
