"""Pictures in and out: read from files that nobody checked, written as bytes that repeat.

picture = read("cat.jpg", param="image")       # RGB, upright, no alpha
picture = picture.fitted(64, 64)               # its notes say what was changed
draft = draft(image, "png")
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from jumar.contracts.errors import InvalidInput
from jumar.runtime.families.base import Draft

if TYPE_CHECKING:
    from PIL import Image

READABLE = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""Formats that are opened. EPS is not among them: reading it starts another program."""

MAX_PIXELS = 64_000_000
"""A picture of more pixels is refused before it is decoded (a small file can claim gigabytes)."""

FORMATS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "png": (".png", "image/png", {}),
    "jpeg": (".jpg", "image/jpeg", {"quality": 95, "subsampling": 0}),
    "webp": (".webp", "image/webp", {"lossless": True}),
}
"""`response_format` to suffix, MIME type and Pillow's options. None of them writes a time."""


@dataclass(frozen=True)
class Picture:
    """An RGB picture (a mask: grey), and what was done to it on the way, in words."""

    image: Image.Image
    param: str
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        width, height = self.image.size
        return width, height

    def fitted(self, width: int, height: int) -> Picture:
        """This picture at exactly that size: stretched, and a note added, where it differs."""
        from PIL.Image import Resampling

        if self.size == (width, height):
            return self
        was_wide, was_high = self.size
        note = f"The {self.param} was resized from {was_wide}x{was_high} to {width}x{height}"
        if abs(was_wide * height - was_high * width) > max(was_wide, was_high, width, height):
            note += ", which changes its proportions"
        # A mask must not gain shades of grey: they would be redrawn in part.
        filter_ = Resampling.NEAREST if self.image.mode == "L" else Resampling.LANCZOS
        resized = self.image.resize((width, height), filter_)
        return replace(self, image=resized, notes=(*self.notes, f"{note}."))


def read(path: str | Path, *, param: str, mask: bool = False) -> Picture:
    """Open a picture: turned as its EXIF data says, without alpha, RGB (a mask: 8-bit grey).

    Raises:
        InvalidInput: it is missing, a folder, empty, no picture, broken, or too large.
    """
    from PIL import Image, UnidentifiedImageError

    path = Path(path).expanduser()
    _check_file(path, param)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # refused below
            with Image.open(path, formats=READABLE) as opened:
                _check_size(opened.size, path, param)
                opened.load()
                return _upright(opened, param, "L" if mask else "RGB")
    except UnidentifiedImageError as error:
        raise InvalidInput(
            f"{path} is no picture that can be read.",
            hint=f"Readable: {', '.join(READABLE)}.",
            param=param,
        ) from error
    except Image.DecompressionBombError as error:
        raise _too_large(path, param) from error
    # Pillow's decoders raise all of these on broken files.
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, IndexError) as error:
        raise InvalidInput(f"{path} is broken: {error}.", param=param) from error


def draft(image: Image.Image, response_format: str = "png") -> Draft:
    """A picture as a file to be; equal pictures give equal bytes."""
    suffix, mime, options = FORMATS[response_format]

    def write(file: BinaryIO) -> None:
        image.save(file, format=response_format.upper(), **options)

    return Draft(
        kind="image", mime=mime, suffix=suffix, write=write, width=image.width, height=image.height
    )


def _check_file(path: Path, param: str) -> None:
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder, not a picture.", param=param)
    try:
        empty = path.stat().st_size == 0
    except (OSError, ValueError) as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise InvalidInput(f"The picture {path} {reason}.", param=param) from error
    if empty:
        raise InvalidInput(f"{path} is empty (0 bytes).", param=param)


def _check_size(size: tuple[int, int], path: Path, param: str) -> None:
    if size[0] * size[1] > MAX_PIXELS:
        raise _too_large(path, param)


def _too_large(path: Path, param: str) -> InvalidInput:
    return InvalidInput(
        f"{path} has more than {MAX_PIXELS // 1_000_000} million pixels.",
        hint="Make it smaller first.",
        param=param,
    )


def _upright(opened: Image.Image, param: str, mode: str) -> Picture:
    from PIL import Image, ImageOps

    notes = []
    if getattr(opened, "n_frames", 1) > 1:
        notes.append(f"Only the first frame of the {param} is used.")
    image = ImageOps.exif_transpose(opened)
    if image.has_transparency_data:
        notes.append(f"The {param}'s transparency was laid on white.")
        alpha = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", alpha.size, "white"), alpha)
    elif image.mode.startswith(("I", "F")):
        image = _eight_bits(image)
        notes.append(f"The {param} was reduced to 8 bits per pixel.")
    return Picture(image.convert(mode), param, tuple(notes))


def _eight_bits(image: Image.Image) -> Image.Image:
    """16-bit grey scaled down; Pillow's own conversion would cut everything above 255."""
    import numpy as np
    from PIL import Image

    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    full = 65535.0 if image.mode.startswith("I") else max(values.max(), 1.0)
    return Image.fromarray((values / full * 255.0).round().clip(0, 255).astype(np.uint8))
