"""Random numbers: one generator per card."""

from collections.abc import Sequence
from typing import Any

import torch

from .devices import current_device, device_count, index_of

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

default_generators = tuple(
    torch.ops.jumar_emulator.default_generator(index) for index in range(device_count())
)


def get_rng_state(device: int | str | torch.device = "npu") -> torch.Tensor:
    """The state of a card's generator, on the CPU."""
    return default_generators[index_of(device)].get_state()


def set_rng_state(new_state: torch.Tensor, device: int | str | torch.device = "npu") -> None:
    """Set the state of a card's generator."""
    default_generators[index_of(device)].set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all cards."""
    return [one.get_state() for one in default_generators]


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """Set the states of all cards."""
    for one, state in zip(default_generators, new_states, strict=False):
        one.set_state(state)


def manual_seed(seed: Any) -> None:
    """Seed the current card; nothing where there is none."""
    if default_generators:
        default_generators[current_device()].manual_seed(int(seed))


def manual_seed_all(seed: Any) -> None:
    """Seed all cards."""
    for one in default_generators:
        one.manual_seed(int(seed))


def seed() -> None:
    """Seed the current card from the system."""
    manual_seed(default_generators[current_device()].seed())


def seed_all() -> None:
    """Seed all cards alike, from the system."""
    manual_seed_all(default_generators[current_device()].seed())


def initial_seed() -> int:
    """The seed of the current card."""
    return int(default_generators[current_device()].initial_seed())
