"""Pictures for the tiny vision model, drawn in code."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Any

SHAPES = ((32, 32, "a"), (48, 32, "b"), (32, 64, "c"))
"""Width, height, and what stands on it."""


def drawn(width: int, height: int, text: str = "Hello") -> Any:
    """Black letters on white, an orange square in the corner where there are any."""
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (width, height), "white")
    if text:
        draw = ImageDraw.Draw(picture)
        draw.text((2, 2), text, fill="black")
        draw.rectangle((width - 9, height - 9, width - 2, height - 2), fill="orange")
    return picture


def as_url(picture: Any) -> str:
    """A picture as clients send it."""
    content = BytesIO()
    picture.save(content, "PNG")
    return f"data:image/png;base64,{b64encode(content.getvalue()).decode()}"


def asking(text: str) -> str:
    """A prompt about one picture, as the chat template writes it."""
    return f"<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{text}<|im_end|>\n"
