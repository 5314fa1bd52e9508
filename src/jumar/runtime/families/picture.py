"""Pictures in and out: read from files that nobody checked, written as bytes that repeat.

picture = read("cat.jpg", name="image")       # RGB, upright, no alpha
picture = picture.fitted(64, 64)               # its notes say what was changed
draft = draft(image, "png")
"""

from __future__ import annotations

import base64
import io
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
    name: str
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
        note = f"The {self.name} was resized from {was_wide}x{was_high} to {width}x{height}"
        if abs(was_wide * height - was_high * width) > max(was_wide, was_high, width, height):
            note += ", which changes its proportions"
        # A mask must not gain shades of grey: they would be redrawn in part.
        filter_ = Resampling.NEAREST if self.image.mode == "L" else Resampling.LANCZOS
        resized = self.image.resize((width, height), filter_)
        return replace(self, image=resized, notes=(*self.notes, f"{note}."))


def read(source: str | Path, *, name: str, mask: bool = False) -> Picture:
    """Open a picture: turned as its EXIF data says, without alpha, RGB (a mask: 8-bit grey).

    `source` is a path or a `data:` address; `name` is the input's, for notes and errors.

    Raises:
        InvalidInput: it is missing, a folder, empty, no picture, broken, or too large.
    """
    from PIL import Image, UnidentifiedImageError

    shown, file = _opened(source, name)
    try:
        with warnings.catch_warnings(), file:
            warnings.simplefilter("ignore")  # of damaged metadata; bombs are refused below
            with Image.open(file, formats=READABLE) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise _too_large(shown, name)
                opened.load()
                return _upright(opened, name, "L" if mask else "RGB")
    except UnidentifiedImageError as error:
        raise InvalidInput(
            f"{shown} is no picture that can be read.",
            hint=f"Readable: {', '.join(READABLE)}.",
            param=f"inputs.{name}",
        ) from error
    except Image.DecompressionBombError as error:
        raise _too_large(shown, name) from error
    except InvalidInput:
        raise
    # On a broken file a decoder may stumble anywhere (TypeError, IndexError, struct.error, …).
    except Exception as error:
        raise InvalidInput(f"{shown} is broken: {error}.", param=f"inputs.{name}") from error


def draft(image: Image.Image, response_format: str = "png") -> Draft:
    """A picture as a file to be; equal pictures give equal bytes."""
    suffix, mime, options = FORMATS[response_format]

    def write(file: BinaryIO) -> None:
        image.save(file, format=response_format.upper(), **options)

    return Draft(
        kind="image", mime=mime, suffix=suffix, write=write, width=image.width, height=image.height
    )


def _opened(source: str | Path, name: str) -> tuple[str, BinaryIO]:
    """What to call the picture in a message, and its bytes as a file."""
    if str(source).startswith("data:"):
        return f"The {name}", io.BytesIO(_decoded(str(source), name))
    if "://" in str(source):
        raise InvalidInput(
            f"{source} is an address; pictures are not fetched.",
            hint="Give a file, or a data: address.",
            param=f"inputs.{name}",
        )
    path = Path(source).expanduser()
    try:
        file = path.open("rb")
    except IsADirectoryError as error:
        raise InvalidInput(f"{path} is a folder, not a picture.", param=f"inputs.{name}") from error
    except (OSError, ValueError) as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise InvalidInput(f"The picture {path} {reason}.", param=f"inputs.{name}") from error
    if not file.peek(1):
        file.close()
        raise InvalidInput(f"{path} is empty (0 bytes).", param=f"inputs.{name}")
    return str(path), file


def _decoded(address: str, name: str) -> bytes:
    head, _, payload = address.partition(",")
    try:
        if not head.endswith(";base64"):
            raise ValueError("no base64 data")
        return base64.b64decode(payload, validate=True)
    except ValueError as error:
        raise InvalidInput(
            f"The data: address of the {name} is broken: {error}.",
            hint="data:image/png;base64,…",
            param=f"inputs.{name}",
        ) from error


def _too_large(shown: str, name: str) -> InvalidInput:
    return InvalidInput(
        f"{shown} has more than {MAX_PIXELS // 1_000_000} million pixels.",
        hint="Make it smaller first.",
        param=f"inputs.{name}",
    )


def _upright(opened: Image.Image, name: str, mode: str) -> Picture:
    from PIL import Image, ImageOps

    notes = []
    if getattr(opened, "n_frames", 1) > 1:
        notes.append(f"Only the first frame of the {name} is used.")
    image = ImageOps.exif_transpose(opened)
    if image.has_transparency_data:
        notes.append(f"The {name}'s transparency was laid on white.")
        alpha = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", alpha.size, "white"), alpha)
    elif image.mode.startswith(("I", "F")):
        image = _eight_bits(image)
        notes.append(f"The {name} was reduced to 8 bits per pixel.")
    return Picture(image.convert(mode), name, tuple(notes))


def _eight_bits(image: Image.Image) -> Image.Image:
    """16-bit grey scaled down; Pillow's own conversion would cut everything above 255."""
    import numpy as np
    from PIL import Image

    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    full = 65535.0 if image.mode.startswith("I") else max(values.max(), 1.0)
    return Image.fromarray((values / full * 255.0).round().clip(0, 255).astype(np.uint8))
