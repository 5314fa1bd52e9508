"""Texts end to end in one row, so that no token is padding.

    packing = Packing.of([8, 6, 3])        # tokens of each text, longest first
    states = model(**packing.inputs(tokens), packing=packing).last_hidden_state
    states, mask = packing.apart(states)   # [n, longest, dim] again, for what pools

All that a model computes token by token is computed for real tokens only; attention alone looks at
one text at a time, those of nearly the same length together. Left padding out changes no answer:
padding is masked everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jumar.runtime.families.encoder.batches import batches

if TYPE_CHECKING:
    import torch

ATTENTION = "jumar_packed"
"""The name under which transformers knows `attend`."""

MODELS = frozenset({"bert"})
"""Model types that hand every argument on to their attention, and count positions from 0."""

_CALL = 200
"""What a call of attention takes beside its tokens, in padded tokens: measured on a CPU."""


@dataclass(frozen=True)
class Group:
    """Neighbours in the row that attend together. `places` are those of each text's tokens, counted
    from the group's first: int64 [n, longest]; `real` says which of them are no padding, `even`
    that all are: texts of one length need no places.
    """

    begin: int
    end: int
    places: torch.Tensor
    real: torch.Tensor
    even: bool

    @classmethod
    def of(cls, begin: int, lengths: torch.Tensor) -> Group:
        """Texts of these lengths, int64 [n], from this place of the row on."""
        import torch

        ends = lengths.cumsum(0)
        steps = torch.arange(int(lengths.max()))
        real = steps < lengths[:, None]
        places = torch.where(real, (ends - lengths)[:, None] + steps, 0)
        return cls(begin, begin + int(ends[-1]), places, real, bool(real.all()))

    @property
    def mask(self) -> torch.Tensor | None:
        """Of keys that are no padding: [n, 1, 1, longest]; None where all are."""
        return None if self.even else self.real[:, None, None, :]

    def padded(self, row: torch.Tensor) -> torch.Tensor:
        """[heads, tokens, dim] of the row → [n, heads, longest, dim] of the group."""
        own = row[:, self.begin : self.end]
        if self.even:
            return own.unflatten(1, tuple(self.real.shape)).transpose(0, 1)
        return own.transpose(0, 1)[self.places].transpose(1, 2)

    def in_row(self, padded: torch.Tensor) -> torch.Tensor:
        """[n, heads, longest, dim] of the group → its part of the row, [tokens, heads, dim]."""
        apart = padded.transpose(1, 2)
        return apart.flatten(0, 1) if self.even else apart[self.real]


@dataclass(frozen=True)
class Packing:
    """How the texts of a batch lie in one row."""

    whole: Group
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, lengths: Sequence[int]) -> Packing:
        """For texts of these lengths, in tokens, longest first."""
        import torch

        counts = torch.tensor(lengths)
        groups, begin = [], 0
        for places in batches(lengths, len(lengths), 1 << 62, _CALL):
            groups.append(Group.of(begin, counts[places]))
            begin = groups[-1].end
        return cls(Group.of(0, counts), tuple(groups))

    def inputs(self, tokens: Sequence[Sequence[int]]) -> dict[str, Any]:
        """The texts as arguments of the model: int64 [1, tokens]."""
        import torch

        ids = torch.tensor([[each for text in tokens for each in text]])
        return {"input_ids": ids, "position_ids": self.row_of(self._steps())}

    def row_of(self, padded: torch.Tensor) -> torch.Tensor:
        """[n, longest] → [1, tokens]."""
        return padded[self.whole.real][None]

    def apart(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[1, tokens, dim] → [n, longest, dim] and its mask, int64 [n, longest]."""
        return states[0][self.whole.places], self.whole.real.long()

    def _steps(self) -> torch.Tensor:
        import torch

        count, longest = self.whole.real.shape
        return torch.arange(longest).expand(count, longest)


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    packing: Packing,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of each text to itself: [1, heads, tokens, dim] each → [1, tokens, heads, dim]."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    if len(packing.whole.real) == 1:  # one text: there is nobody to keep apart
        return scaled_dot_product_attention(query, key, value, scale=scaling).transpose(1, 2), None
    found = []
    for group in packing.groups:
        attended = scaled_dot_product_attention(
            group.padded(query[0]),
            group.padded(key[0]),
            group.padded(value[0]),
            attn_mask=group.mask,
            scale=scaling,
        )
        found.append(group.in_row(attended))
    return torch.cat(found)[None], None


def packs(config: Any) -> bool:
    """Whether a model of transformers can have its texts in one row; it knows `attend` from now on.

    Its attention has to be bidirectional, over the whole text, by positions from 0.
    """
    if config.model_type not in MODELS or getattr(config, "is_decoder", False):
        return False
    if getattr(config, "position_embedding_type", "absolute") != "absolute":
        return False
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, attend)
    return True
