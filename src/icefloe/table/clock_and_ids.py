"""The real clock and the real source of ids, behind the kernel's ports."""

import time
import uuid


class SystemClock:
    """Wall-clock time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class RandomIds:
    """Version 4 UUIDs, and snapshot ids folded from them as Java folds them."""

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def snapshot_id(self) -> int:
        drawn = uuid.uuid4().int
        return ((drawn >> 64) ^ drawn) & 0x7FFF_FFFF_FFFF_FFFF
