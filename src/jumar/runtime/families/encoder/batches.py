"""Which texts are computed together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def batches(
    lengths: Sequence[int], most_texts: int, most_tokens: int, forward: int
) -> Iterator[list[int]]:
    """Places of the texts, longest first, in the groups that cost least.

    A group costs `forward`, what a forward takes beside its tokens, counted in tokens, and each of
    its texts as many tokens as the longest has: it is padded to that. A group has at most
    `most_texts` texts and costs at most `most_tokens` tokens; a text longer than that stands
    alone. The longest go first, so that memory that is too small is found out at once.

    Neighbours by length belong together, so the cheapest division of the sorted texts is that of
    the first group and the cheapest division of what is left (dynamic programming, from the end).
    """
    order = sorted(range(len(lengths)), key=lambda at: -lengths[at])
    costs, counts = [0] * (len(order) + 1), [0] * len(order)
    for start in range(len(order) - 1, -1, -1):
        longest = lengths[order[start]]
        most = max(1, min(most_texts, most_tokens // max(1, longest), len(order) - start))
        costs[start], less = min(
            (forward + longest * count + costs[start + count], -count)
            for count in range(1, most + 1)
        )
        counts[start] = -less
    start = 0
    while start < len(order):
        yield order[start : start + counts[start]]
        start += counts[start]
