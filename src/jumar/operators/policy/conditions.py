"""What a rule may ask of the machine: `when: {cann: "8.5.*", chip: 910B*}`.

Versions are compared as Python's packaging does (PEP 440), names as patterns with `*`. An answer is
yes, no, or None where the machine does not tell: a `deny` then holds, an order does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from jumar.contracts.errors import InvalidValue, did_you_mean

COMPILERS = ("triton-ascend", "flagtree", "triton")
"""Distributions that compile kernels; one machine uses one of them."""

NAMES = ("arch", "chip", "device_class")
VERSIONS = ("cann", "driver", "flag_gems", "python", "torch", "torch_npu", "transformers", "vllm")
KNOWN = (*NAMES, *VERSIONS, *COMPILERS, "compiler")


class Condition(NamedTuple):
    """One line of a `when`: the name of a fingerprint's entry, and what it has to be."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name} {self.text}"

    def check(self) -> None:
        """Raises InvalidValue where it can never be evaluated."""
        if self.name not in KNOWN:
            raise InvalidValue(
                f"A condition cannot ask for {self.name!r}.",
                hint=did_you_mean(self.name, KNOWN),
                param="when",
            )
        _reader(self.name)(self.name, self.text, {})

    def holds(self, fingerprint: Mapping[str, str]) -> bool | None:
        """Whether it is so on the machine with this fingerprint; None where nobody can tell."""
        return _reader(self.name)(self.name, self.text, fingerprint)


def all_hold(when: tuple[Condition, ...], fingerprint: Mapping[str, str]) -> bool | None:
    """Whether all conditions hold: no where one does not, None where one is not known."""
    answers = [condition.holds(fingerprint) for condition in when]
    return False if False in answers else None if None in answers else True


Reader = Callable[[str, str, Mapping[str, str]], "bool | None"]


def _reader(name: str) -> Reader:
    return _matches if name in NAMES else _compiler if name == "compiler" else _version


def _matches(name: str, text: str, fingerprint: Mapping[str, str]) -> bool | None:
    if name not in fingerprint:
        return None
    # npu-smi says 910B4, torch_npu Ascend910B4: the same chip.
    found = fingerprint[name].lower().removeprefix("ascend")
    return fnmatchcase(found, text.lower().removeprefix("ascend"))


def _compiler(name: str, text: str, fingerprint: Mapping[str, str]) -> bool | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        raise InvalidValue(f"{name}: {text!r} is no requirement: {error}", param="when") from error
    if wanted.name not in COMPILERS:
        raise InvalidValue(
            f"{wanted.name!r} is no compiler of kernels.",
            hint=did_you_mean(wanted.name, COMPILERS),
            param="when",
        )
    if wanted.name not in fingerprint:
        return False if any(one in fingerprint for one in COMPILERS) else None
    return _version(wanted.name, str(wanted.specifier), fingerprint)


def _version(name: str, text: str, fingerprint: Mapping[str, str]) -> bool | None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        wanted = SpecifierSet(text if not text or text[0] in "=<>!~" else f"=={text}")
    except InvalidSpecifier as error:
        raise InvalidValue(f"{name}: {text!r} is no version range.", param="when") from error
    if name not in fingerprint:
        return None
    try:
        return wanted.contains(Version(fingerprint[name]), prereleases=True)
    except InvalidVersion:  # CANN's own alpha versions: 8.0.RC1.alpha003
        return None
