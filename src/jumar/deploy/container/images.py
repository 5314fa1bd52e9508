"""What an image's name says: its chip, whether it brings CANN, its processor."""

from __future__ import annotations

import re

from jumar.contracts.errors import InvalidValue

VARIANTS = {
    "310p": "310p",
    "310b": "310b",
    "910b": "910b",
    "910c": "a3",
    "910": "910",
    "a2": "910b",
    "a3": "a3",
    "a5": "950",
    "950": "950",
}
"""Words of image tags, to the product line that they mean."""

VLLM_ASCEND = "vllm-ascend"
SUFFIXES = {"910b": "", "a3": "-a3", "310p": "-310p"}
"""How vllm-ascend marks its images; the plain tag is the one for 910B."""

WITH_CANN = ("vllm-ascend", "cann", "mindie", "ascend", "torch-npu", "torch_npu", "flagos")
ARCHES = {"arm64": "aarch64", "aarch64": "aarch64", "amd64": "x86_64", "x86_64": "x86_64"}


def words(image: str) -> list[str]:
    """The words of the name and tag, without registry and digest."""
    name = image.split("@")[0].rsplit("/", 1)[-1].lower()
    return re.split(r"[-:]", name)


def variant_of(image: str) -> str | None:
    """The product line that an image is for; None where its name does not say."""
    said = [VARIANTS[word] for word in words(image) if word in VARIANTS]
    if said:
        return said[0]
    name = image.split("@")[0].rsplit("/", 1)[-1]
    return "910b" if name.split(":")[0] == VLLM_ASCEND else None


def brings_cann(image: str) -> bool:
    """Whether the image has CANN inside, judged by its name."""
    name = image.split("@")[0].lower()
    return any(word in name for word in WITH_CANN)


def brings_torch_npu(image: str) -> bool:
    """Whether torch_npu is inside, judged by the name: the plain CANN images have none."""
    return brings_cann(image) and not re.search(r"(^|/)cann[:@]", image.split("@")[0] + "@")


def cann_in_tag(image: str) -> str | None:
    """The version of CANN in the tag of a CANN image: "8.5.0", "8.3.RC1"."""
    match = re.search(r":v?(\d+\.\d+\.(?:\d+|RC\d+))", image, re.IGNORECASE)
    return match[1].upper() if match else None


def check_image(image: str, line: str, chip: str, arch: str | None) -> None:
    """Raise InvalidValue where the image's name says another chip or processor."""
    variant = variant_of(image)
    if variant is not None and variant != line:
        raise InvalidValue(
            f"{image} is for {variant}; this host has {chip} ({line}).",
            hint=right_image(image, line),
            param="image",
        )
    said = [ARCHES[word] for word in words(image) if word in ARCHES]
    if said and arch and said[0] != arch:
        raise InvalidValue(
            f"{image} is for {said[0]}; this host is {arch}.",
            hint=f"Take the image for {arch}.",
            param="image",
        )


def right_image(image: str, line: str) -> str:
    """The name to use instead, where the naming is known."""
    name, _, tag = image.partition(":") if "/" not in image else _split_tag(image)
    if name.endswith(VLLM_ASCEND) and tag:
        if line not in SUFFIXES:
            return f"{VLLM_ASCEND} has no image for {line}."
        plain = re.sub(r"-(a3|310p)(?=-|$)", "", tag)
        version, dash, system = plain.partition("-")
        return f"Use {name}:{version}{SUFFIXES[line]}{dash}{system}"
    return f"Take the image of the product line {line}."


def _split_tag(image: str) -> tuple[str, str, str]:
    head, _, last = image.rpartition("/")
    name, colon, tag = last.partition(":")
    return f"{head}/{name}", colon, tag
