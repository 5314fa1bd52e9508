"""Listing is instant, and other distributions add models without touching this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar import catalog
from jumar.catalog import build, index
from jumar.catalog.index import Catalog, load_index
from jumar.contracts.errors import JumarError, UnknownModel
from jumar.plugins import Plugin, installed

from .conftest import PAINTER, Folder

EMBEDDED = {
    "all-minilm-l6-v2",
    "hibari",
    "py3langid",
    "sdxl-digits",
    "svguardian",
    "whisper-tiny.en",
}


OMNIRT = """
    animate-diff-sdxl bria-3.2 chronoedit cogvideox-2b cogvideox-5b flux-canny flux-depth flux-dev
    flux-fill flux-kontext flux-schnell flux2-dev flux2.dev glm-image helios-i2v helios-t2v
    hidream-i1 hunyuan-image-2.1 hunyuan-video hunyuan-video-1.5-i2v hunyuan-video-1.5-t2v
    kandinsky5-i2v kandinsky5-t2v kolors ltx-video ltx2-i2v lumina-t2x mochi omnigen ovis-image
    pixart-sigma qwen-image qwen-image-edit qwen-image-edit-plus qwen-image-layered sana-1.6b
    sana-video sd15 sd21 sd3-medium sd3.5-large sd3.5-large-turbo sdxl-base-1.0 sdxl-refiner-1.0
    sdxl-turbo skyreels-v2 svd svd-xt wan2.1-i2v-14b wan2.1-t2v-14b wan2.2-i2v-14b wan2.2-t2v-14b
    """


def test_every_diffusers_model_of_omnirt_is_known_by_its_name() -> None:
    assert set(OMNIRT.split()) <= set(catalog.names())


def test_the_embedded_models_come_first_and_are_core() -> None:
    rows = catalog.rows()
    assert (
        {row.id for row in rows[: len(EMBEDDED)]}
        == EMBEDDED
        == {row.id for row in catalog.rows("core")}
    )
    assert [row.tier for row in rows] == sorted(
        (row.tier for row in rows), key=["core", "adjacent", "experimental"].index
    )


def test_a_row_agrees_with_its_manifest() -> None:
    for row in catalog.rows():
        manifest = catalog.get(row.id)
        assert row.tasks == tuple(manifest.tasks)
        assert row.memory_gb == manifest.resources.memory_gb
        assert row.backends == {kind: known.status for kind, known in manifest.backends.items()}


def test_ids_and_aliases_both_find_a_model() -> None:
    assert catalog.get("minilm") is catalog.get("all-minilm-l6-v2")
    assert {"minilm", "all-minilm-l6-v2"} <= set(catalog.names())
    with pytest.raises(UnknownModel) as error:
        catalog.get("whisper-tiny")
    assert "'whisper-tiny.en'" in (error.value.hint or "")


def test_listing_loads_neither_pydantic_nor_yaml_nor_importlib_metadata() -> None:
    code = (
        "import sys; from jumar import catalog; assert catalog.rows();"
        "catalog.get('hibari').tasks;"
        "print(*{'pydantic', 'yaml', 'importlib.metadata', 'torch', 'numpy'} & set(sys.modules))"
    )
    # Without what else is installed here: a plugin elsewhere is a reason to load all of them.
    run = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(catalog.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == ""


def test_equal_manifests_give_equal_bytes(folder: Folder, tmp_path: Path) -> None:
    place = folder(PAINTER)
    build.write(tmp_path / "a.json", folder=place)
    build.write(tmp_path / "b.json", folder=place)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text())["rows"][0]["id"] == "painter"


class TestAnEditedManifest:
    """In a checkout the index follows the manifests; an installed package never looks."""

    @pytest.fixture
    def edited(self, folder: Folder) -> Path:
        place = folder(PAINTER)
        build.write(place / index.INDEX, folder=place)
        manifest = place / "manifests" / "painter.yaml"
        manifest.write_text(manifest.read_text().replace("Draws.", "Paints."))
        later = index.newest_source(place) + 1_000_000_000
        os.utime(manifest, ns=(later, later))
        return place

    @staticmethod
    def summary(place: Path) -> str:
        return Catalog(load_index(place)).rows()[0].summary

    def test_is_seen_in_a_checkout(self, edited: Path) -> None:
        (edited.parents[2] / "hatch_build.py").touch()
        assert self.summary(edited) == "Paints."
        assert "Paints." in (edited / index.INDEX).read_text(), "written for the next process"

    def test_is_not_looked_for_elsewhere(self, edited: Path) -> None:
        assert self.summary(edited) == "Draws."

    def test_that_is_wrong_says_where(self, edited: Path) -> None:
        (edited.parents[2] / "hatch_build.py").touch()
        (edited / "manifests" / "painter.yaml").write_text("id: painter\ntasks: [")
        later = index.newest_source(edited) + 1_000_000_000
        os.utime(edited / "manifests" / "painter.yaml", ns=(later, later))
        with pytest.raises(JumarError) as error:
            load_index(edited)
        assert "painter.yaml" in (error.value.cause or "")

    def test_that_was_removed_is_seen(self, edited: Path, folder: Folder) -> None:
        (edited.parents[2] / "hatch_build.py").touch()
        folder(PAINTER.replace("id: painter", "id: other").replace("[brush]", "[]"))
        os.utime(edited / "manifests", ns=(later := index.newest_source(edited) + 10**9, later))
        assert len(Catalog(load_index(edited)).rows()) == 2
        (edited / "manifests" / "other.yaml").unlink()
        os.utime(edited / "manifests", ns=(later + 10**9, later + 10**9))
        assert len(Catalog(load_index(edited)).rows()) == 1

    def test_is_seen_where_nothing_can_be_written(
        self, edited: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (edited.parents[2] / "hatch_build.py").touch()
        before = (edited / index.INDEX).read_bytes()

        def read_only(*_: object, **__: object) -> None:
            raise PermissionError("read-only")

        monkeypatch.setattr(build.tempfile, "mkstemp", read_only)
        assert self.summary(edited) == "Paints."
        assert (edited / index.INDEX).read_bytes() == before

    def test_leaves_no_half_written_index(
        self, edited: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = (edited / index.INDEX).read_bytes()

        def full(*_: object, **__: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(build.os, "utime", full)
        with pytest.raises(OSError, match="disk full"):
            build.write(edited / index.INDEX, folder=edited)
        assert (edited / index.INDEX).read_bytes() == before
        assert [path.name for path in edited.iterdir() if "_index" in path.name] == ["_index.json"]


Adding = Callable[[str], Plugin]


@pytest.fixture
def adding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Adding:
    """A distribution `other 1.2` whose function `manifests` has this body."""

    def add(body: str) -> Plugin:
        home = tmp_path / "site"
        info = home / "other-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(
            "[jumar.manifests]\nmine = other_manifests:manifests\n"
        )
        (home / "other_manifests.py").write_text(
            f"from pathlib import Path\ndef manifests():\n    {body}\n"
        )
        monkeypatch.syspath_prepend(str(home))
        monkeypatch.delitem(sys.modules, "other_manifests", raising=False)
        (plugin,) = installed("jumar.manifests", foreign_only=True)
        return plugin

    return add


SINGER = {
    "id": "singer",
    "summary": "Sings.",
    "family": "speech",
    "tier": "experimental",
    "licence": "MIT",
    "tasks": {"text2audio": {"inputs": {"prompt": {"required": True}}}},
}


def test_another_distribution_adds_a_model(painter: Catalog, adding: Adding) -> None:
    painter.add(adding(f"return [{SINGER!r}]"))
    assert painter.failures == []
    assert painter.get("singer").tasks["text2audio"].inputs["prompt"].required
    assert [(row.id, row.distribution) for row in painter.rows()] == [
        ("painter", "jumar"),
        ("singer", "other"),
    ]


def test_another_distribution_adds_a_folder(
    painter: Catalog, adding: Adding, tmp_path: Path
) -> None:
    (tmp_path / "singer.yaml").write_text(json.dumps(SINGER))
    painter.add(adding(f"return [Path({str(tmp_path)!r})]"))
    assert painter.failures == []
    assert painter.get("singer").family == "speech"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1 / 0", "division by zero"),
        ("pass\nimport a_module_that_is_not_there", "a_module_that_is_not_there"),
        ("return None", "NoneType"),
        (f"return [{ {**SINGER, 'tier': 'best'}!r}]", "tier: Input should be"),
        (f"return [{SINGER!r}] * 2", "'singer' names both singer and singer"),
        (
            f"return [{ {**SINGER, 'id': 'brush'}!r}]",
            "'brush' of other is already the name of painter of jumar",
        ),
    ],
)
def test_a_distribution_that_fails_is_shown_with_its_cause_and_harms_nobody(
    painter: Catalog, adding: Adding, body: str, said: str
) -> None:
    painter.add(adding(body))
    (failure,) = painter.failures
    assert failure.plugin.distribution == "other"
    assert said in str(failure.__cause__)
    assert painter.names() == ["brush", "painter"]
    assert painter.get("brush").id == "painter"
    with pytest.raises(UnknownModel) as error:
        painter.get("singer")
    assert "other 1.2 cannot be loaded" in (error.value.hint or "")


def test_the_catalog_of_a_process_has_them_too(adding: Adding) -> None:
    adding(f"return [{SINGER!r}]")
    fresh = index.catalog.__wrapped__()
    assert fresh.get("singer").id == "singer"
    assert fresh.failures == []


def test_jumars_own_entry_point_returns_where_its_manifests_lie() -> None:
    (place,) = catalog.builtin_manifests()
    assert {path.stem for path in place.glob("*.yaml")} == {
        row.id for row in catalog.rows() if row.distribution == "jumar"
    }


def test_building_the_package_writes_the_index(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    root = Path(__file__).parents[2]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hatch_build as hook\n"
        "hook.CatalogIndex(sys.argv[1], {}, None, None, sys.argv[1], 'wheel')"
        ".initialize('standard', {})"
    )
    written = root / "src" / "jumar" / "catalog" / index.INDEX
    before = json.loads(written.read_text())
    subprocess.run([sys.executable, "-c", code, str(root)], check=True, cwd=tmp_path)
    assert json.loads(written.read_text()) == before
