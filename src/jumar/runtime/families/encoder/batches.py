"""Which texts are computed together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def batches(lengths: Sequence[int], most_texts: int, most_tokens: int) -> Iterator[list[int]]:
    """Places of the texts, longest first, in groups that waste little padding.

    A group has at most `most_texts` texts, and at most `most_tokens` tokens when each is padded to
    the longest; a text longer than that stands alone. The longest go first, so that memory that
    is too small is found out at once.
    """
    group: list[int] = []
    longest = 0
    for place in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        full = len(group) == most_texts or longest * (len(group) + 1) > most_tokens
        if group and full:
            yield group
            group = []
        if not group:
            longest = lengths[place]
        group.append(place)
    if group:
        yield group
