"""The waits of a commit after lost races, chosen so that none of many writers starves.

A writer that has committed begins its next commit at once, while a writer that has lost a race waits. If waits only doubled, a writer that lost often would
wait for minutes, while a few others used the table among themselves. Therefore waits double only until they are a few times as long as the first wait or as an
attempt, and then halve with each further loss: the writer that has lost most often tries most often. With the default number of retries, all waits double.
Spec: Commit Conflict Resolution and Retry.
"""

# The longest wait, as a multiple of the first wait or the duration of an attempt, whichever is longer. With the default properties, the last retry reaches it.
LONGEST = 8


def longest_wait_ms(losses: int, attempt_ms: int, min_wait_ms: int, max_wait_ms: int) -> int:
    """Return the upper limit of a wait in milliseconds. The wait itself is a random number between zero and this limit.

    Args:
        losses: how often this commit has lost a race so far; at least 1.
        attempt_ms: the duration of the last attempt in milliseconds.
        min_wait_ms: the limit of the first wait, in milliseconds. The limits of later waits first grow, and then shrink to this limit again.
        max_wait_ms: the longest allowed wait in milliseconds.
    """
    if min_wait_ms <= 0:
        return 0
    longest_ms = min(LONGEST * max(min_wait_ms, attempt_ms), max_wait_ms)
    most_doublings = max(longest_ms // min_wait_ms, 1).bit_length() - 1
    doublings = most_doublings - abs(losses - 1 - most_doublings)
    return min(min_wait_ms << max(doublings, 0), max_wait_ms)
