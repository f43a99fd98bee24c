"""`new_key`: an idempotency key, by which a server recognizes a request that is sent again. Spec: REST catalog, Idempotency-Key."""

import random
import time

# What `secrets` uses, which also imports OpenSSL: 4 MB of memory in every process that opens a table.
_RANDOM = random.SystemRandom()


def new_key() -> str:
    """Return a new UUID of version 7, which begins with the time."""
    milliseconds = time.time_ns() // 1_000_000
    number = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76 | _RANDOM.getrandbits(12) << 64 | 0b10 << 62 | _RANDOM.getrandbits(62)
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
