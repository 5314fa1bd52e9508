"""A checkout of a script-backed model, and what its script is given."""

from __future__ import annotations

import shutil
import wave
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
SECONDS = 0.4
SIZE = (48, 64)


def checkout(folder: Path) -> Path:
    """A folder with the stand-in scripts and empty folders of weights."""
    repository = folder / "a checkout"
    shutil.copytree(HERE / "avatar_repo", repository)
    for weights in (
        "SoulX-FlashTalk-14B",
        "SoulX-FlashHead-1_3B",
        "LiveAct",
        "chinese-wav2vec2-base",
        "wav2vec2-base-960h",
    ):
        (repository / "models" / weights).mkdir(parents=True)
    return repository


def inputs(folder: Path) -> tuple[Path, Path]:
    """`input.png` and `input.wav`, as OmniRT's page calls them."""
    image, audio = folder / "input.png", folder / "input.wav"
    Image.new("RGB", SIZE, (180, 140, 120)).save(image)
    with wave.open(str(audio), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16_000)
        sound.writeframes(b"\1\0" * int(16_000 * SECONDS))
    return image, audio
