"""Pictures that people send: opened as they look, or refused with a reason."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL", reason="needs the runtime extra")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from jumar.contracts.errors import InvalidInput
from jumar.runtime.families import picture
from jumar.runtime.families.picture import FORMATS, Picture, draft, read

RED = (255, 0, 0)


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


def png_chunk(kind: bytes, content: bytes) -> bytes:
    head = struct.pack(">I", len(content)) + kind
    return head + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.fixture
def red(tmp_path: Path) -> Path:
    return saved(tmp_path / "red.png", Image.new("RGB", (6, 4), RED))


class TestRead:
    def test_an_ordinary_picture_is_rgb_and_nothing_is_told(self, red: Path) -> None:
        opened = read(red, name="image")
        assert (opened.image.mode, opened.size, opened.notes) == ("RGB", (6, 4), ())

    @pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "bmp", "gif", "tiff"])
    def test_the_usual_formats_are_read(self, tmp_path: Path, suffix: str) -> None:
        path = saved(tmp_path / f"picture.{suffix}", Image.new("RGB", (16, 16), RED))
        red, green, blue = read(path, name="image").image.getpixel((8, 8))
        assert red > 240
        assert max(green, blue) < 16

    def test_it_is_turned_as_its_camera_says(self, tmp_path: Path) -> None:
        image = Image.new("RGB", (6, 4))
        image.putpixel((0, 0), RED)
        exif = Image.Exif()
        exif[0x0112] = 6  # the camera stood on its right side: turn by 90 degrees, clockwise
        path = saved(tmp_path / "turned.png", image, exif=exif)
        opened = read(path, name="image")
        assert opened.size == (4, 6)
        assert opened.image.getpixel((3, 0)) == RED

    @pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
    def test_transparency_is_laid_on_white_and_told(self, tmp_path: Path, mode: str) -> None:
        image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
        image.putpixel((1, 0), (0, 0, 0, 255))
        opened = read(saved(tmp_path / "clear.png", image.convert(mode)), name="image")
        assert opened.image.getpixel((0, 0)) == (255, 255, 255)
        assert opened.image.getpixel((1, 0)) == (0, 0, 0)
        assert opened.notes == ("The image's transparency was laid on white.",)

    def test_sixteen_bits_are_scaled_not_cut(self, tmp_path: Path) -> None:
        values = np.array([[0, 256, 32768, 65535]], np.uint16)
        opened = read(saved(tmp_path / "deep.png", Image.fromarray(values)), name="image")
        assert [opened.image.getpixel((x, 0))[0] for x in range(4)] == [0, 1, 128, 255]
        assert opened.notes == ("The image was reduced to 8 bits per pixel.",)

    def test_the_first_frame_of_an_animation_is_used_and_told(self, tmp_path: Path) -> None:
        frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
        path = saved(tmp_path / "moving.gif", frames[0], save_all=True, append_images=frames[1:])
        opened = read(path, name="image")
        assert opened.image.getpixel((0, 0)) == RED
        assert opened.notes == ("Only the first frame of the image is used.",)

    def test_a_mask_is_grey(self, red: Path) -> None:
        assert read(red, name="mask", mask=True).image.mode == "L"

    def test_a_data_address_is_read(self, red: Path) -> None:
        text = base64.b64encode(red.read_bytes()).decode()
        assert read(f"data:image/png;base64,{text}", name="image").size == (6, 4)


class TestRefusals:
    def refused(self, source: str | Path) -> InvalidInput:
        with pytest.raises(InvalidInput) as caught:
            read(source, name="image")
        assert caught.value.param == "inputs.image"
        return caught.value

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        assert "does not exist" in self.refused(tmp_path / "none.png").message

    def test_a_folder(self, tmp_path: Path) -> None:
        assert "is a folder" in self.refused(tmp_path).message

    def test_a_file_of_no_bytes(self, tmp_path: Path) -> None:
        (tmp_path / "empty.png").touch()
        assert "is empty (0 bytes)" in self.refused(tmp_path / "empty.png").message

    @pytest.mark.parametrize("content", [b"hello", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"<svg/>"])
    def test_a_file_that_is_no_picture(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "words.png"
        path.write_bytes(content)
        error = self.refused(path)
        assert "no picture that can be read" in error.message
        assert "PNG" in str(error.hint)

    def test_a_path_with_a_zero_byte(self) -> None:
        assert "cannot be read" in self.refused("a\0b.png").message

    @pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif", "bmp"])
    def test_a_truncated_file(self, tmp_path: Path, suffix: str) -> None:
        noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
        path = saved(tmp_path / f"cut.{suffix}", Image.fromarray(noise))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        self.refused(path)

    def test_more_pixels_than_fit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(picture, "MAX_PIXELS", 1_000_000)
        path = saved(tmp_path / "wide.png", Image.new("1", (1001, 1000)))
        assert path.stat().st_size < 1000
        assert "more than 1 million pixels" in self.refused(path).message

    def test_a_bomb_that_pillow_knows(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.png"
        path.write_bytes(
            b"\x89PNG\r\n\x1a\n"
            + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0))
            + png_chunk(b"IDAT", b"")
        )
        assert "more than 64 million pixels" in self.refused(path).message

    def test_an_address_on_the_net(self) -> None:
        assert "not fetched" in self.refused("https://example.org/cat.png").message

    @pytest.mark.parametrize("address", ["data:image/png;base64,?", "data:image/png,abc", "data:"])
    def test_a_broken_data_address(self, address: str) -> None:
        assert "is broken" in self.refused(address).message

    @given(st.data())
    @settings(max_examples=150, deadline=None)
    def test_whatever_is_done_to_the_bytes_is_a_picture_or_a_refusal(self, data: Any) -> None:
        kind = data.draw(st.sampled_from(["png", "jpeg", "webp", "gif", "tiff", "bmp"]))
        file = io.BytesIO()
        Image.linear_gradient("L").resize((24, 24)).convert("RGB").save(file, kind)
        content = bytearray(file.getvalue())
        for _ in range(data.draw(st.integers(1, 6))):
            place = data.draw(st.integers(0, len(content) - 1))
            content[place] = data.draw(st.integers(0, 255))
        del content[data.draw(st.integers(1, len(content))) :]
        address = "data:;base64," + base64.b64encode(content).decode()
        try:
            assert isinstance(read(address, name="image"), Picture)
        except InvalidInput as error:
            assert error.param == "inputs.image"


class TestFitted:
    def test_a_picture_of_the_right_size_is_left_alone(self, red: Path) -> None:
        opened = read(red, name="image")
        assert opened.fitted(6, 4) is opened

    def test_a_change_of_size_is_told(self, red: Path) -> None:
        fitted = read(red, name="image").fitted(12, 8)
        assert fitted.size == (12, 8)
        assert fitted.notes == ("The image was resized from 6x4 to 12x8.",)

    def test_a_change_of_proportions_is_told_too(self, red: Path) -> None:
        (note,) = read(red, name="image").fitted(64, 64).notes
        assert note.endswith("which changes its proportions.")

    def test_a_mask_gains_no_shades(self, tmp_path: Path) -> None:
        half = np.zeros((10, 10), np.uint8)
        half[:, 5:] = 255
        opened = read(saved(tmp_path / "m.png", Image.fromarray(half)), name="mask", mask=True)
        values = np.unique(np.asarray(opened.fitted(64, 48).image))
        assert values.tolist() == [0, 255]


class TestDraft:
    IMAGE = Image.linear_gradient("L").resize((16, 8)).convert("RGB")

    def written(self, name: str) -> bytes:
        file = io.BytesIO()
        draft(self.IMAGE, name).write(file)
        return file.getvalue()

    @pytest.mark.parametrize("name", FORMATS)
    def test_equal_pictures_give_equal_bytes(self, name: str) -> None:
        assert self.written(name) == self.written(name)

    @pytest.mark.parametrize("name", ["png", "webp"])
    def test_png_and_webp_lose_nothing(self, name: str) -> None:
        back = Image.open(io.BytesIO(self.written(name))).convert("RGB")
        assert np.array_equal(np.asarray(back), np.asarray(self.IMAGE))

    def test_the_draft_knows_its_size(self) -> None:
        made = draft(self.IMAGE)
        assert (made.kind, made.mime, made.width, made.height) == ("image", "image/png", 16, 8)
