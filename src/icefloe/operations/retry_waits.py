"""How long a commit waits after a lost race, so that of many writers none starves.

A writer that has committed begins its next commit at once, while one that has lost waits. If waits only doubled, a writer that lost often would wait for
minutes, while a few others shared the table among them. Waits therefore double until they are a few times as long as the first wait, or as an attempt
takes, and then halve with each further loss: the writer that has lost most often tries most often. The retries that there are by default all double.
Spec: Commit Conflict Resolution and Retry.
"""

# The longest wait, as a multiple of the first wait or of an attempt, whichever is longer. By default waits reach it with the last retry.
LONGEST = 8


def longest_wait_ms(losses: int, attempt_ms: int, min_wait_ms: int, max_wait_ms: int) -> int:
    """Return the upper end of a wait in milliseconds. The wait itself is drawn evenly from zero to it.

    Args:
        losses: the lost races of this commit, from 1.
        attempt_ms: how long the last attempt took.
        min_wait_ms: the first wait, to which later ones shrink again.
        max_wait_ms: the longest wait that is allowed.
    """
    if min_wait_ms <= 0:
        return 0
    longest_ms = min(LONGEST * max(min_wait_ms, attempt_ms), max_wait_ms)
    most_doublings = max(longest_ms // min_wait_ms, 1).bit_length() - 1
    doublings = most_doublings - abs(losses - 1 - most_doublings)
    return min(min_wait_ms << max(doublings, 0), max_wait_ms)
