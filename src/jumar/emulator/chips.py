"""The chips that can be emulated: what a program can tell them apart by."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.contracts.errors import InvalidValue, did_you_mean

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip. `memory` in bytes as npu-smi shows it, `cores` cube and vector, `product` its age.

    `soc` is the number that `torch_npu.npu.get_soc_version()` answers; `printed` is the name in
    npu-smi's table. Names and numbers: torch_npu's SocVersion; memory: public npu-smi outputs.
    Cores are known for 910B only; the other counts are placeholders that nothing depends on.
    """

    name: str
    soc: int
    memory: int
    bf16: bool
    cores: tuple[int, int]
    printed: str
    product: str


CHIPS = {
    chip.name: chip
    for chip in (
        Chip("Ascend910B1", 220, 65536 * MIB, True, (24, 48), "910B1", "910b"),
        Chip("Ascend910B2", 221, 65536 * MIB, True, (24, 48), "910B2", "910b"),
        Chip("Ascend910B3", 223, 65536 * MIB, True, (20, 40), "910B3", "910b"),
        Chip("Ascend910B4", 224, 32768 * MIB, True, (20, 40), "910B4", "910b"),
        Chip("Ascend910A", 102, 32768 * MIB, False, (32, 32), "910A", "910"),
        Chip("Ascend310P3", 202, 21527 * MIB, False, (8, 8), "310P3", "310p"),
        Chip("Ascend310B4", 243, 3513 * MIB, False, (1, 1), "310B4", "310b"),
        Chip("Ascend910_9391", 250, 65536 * MIB, True, (24, 48), "Ascend910", "a3"),
        Chip("Ascend950PR", 260, 131072 * MIB, True, (32, 64), "Ascend950PR", "950"),
    )
}


def find_chip(name: str) -> Chip:
    """The chip of a name ("Ascend910B1", "910B1") or of a product with one chip here ("310P").

    Raises:
        InvalidValue: no such chip, with the nearest names.
    """
    folded = name.casefold().removeprefix("ascend")
    named = [one for one in CHIPS.values() if one.name.casefold() == f"ascend{folded}"]
    for found in (named, [one for one in CHIPS.values() if one.product == folded]):
        if len(found) == 1:
            return found[0]
    hint = did_you_mean(f"Ascend{folded}", CHIPS)
    raise InvalidValue(f"No emulated chip is called {name!r}.", hint=hint, param="chip")
