"""Names of Ascend chips: what npu-smi prints, to what torch_npu and CANN call the same chip."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, cast

from jumar.host.facts import Soc
from jumar.host.tables import rows

if TYPE_CHECKING:
    from jumar.host.facts import Board

PREFIX = "Ascend"


@cache
def socs() -> dict[str, Soc]:
    """All known chips by name ("Ascend910B3"), in the order of the table."""
    return {
        row["soc_name"]: Soc(
            name=row["soc_name"],
            torch_npu_int=int(row["torch_npu_soc_int"]),
            variant=cast(
                'Literal["910", "910b", "a3", "310p", "310b", "950"]', row["cann_image_variant"]
            ),
            generation=row["generation"],
        )
        for row in rows("soc_names.tsv")
    }


def soc_name(name: str) -> str:
    """One spelling: "910B3", "Ascend 910B3" and "AscendAscend910B3" are "Ascend910B3".

    An emulated chip ("910B3 (emulated)") is the same chip.
    """
    bare = name.replace(" ", "").removesuffix("(emulated)")
    while bare.startswith(PREFIX):
        bare = bare.removeprefix(PREFIX)
    return PREFIX + bare


def find_soc(name: str, board: Board | None = None) -> Soc | None:
    """The chip of a printed name, or None for one that the table does not have.

    A3 prints the bare "Ascend910" and tells its number only in the board query, as `npu_name`; A2
    gives the chip's type and name apart.
    """
    names = [soc_name(name)]
    if board is not None and board.chip_name:
        chip = soc_name(board.chip_name)
        names = [f"{chip}_{board.npu_name}", chip, *names]
    return next((socs()[one] for one in names if one in socs()), None)
