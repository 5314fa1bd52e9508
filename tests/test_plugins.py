"""Other distributions add parts by entry point; one that fails is shown with its error."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.plugins import PluginFailed, installed, load


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution on `sys.path` with one good and one broken part."""
    info = tmp_path / "other-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[jumar.families]\ngood = other_part:Part.made\nbroken = other_broken:Part\n"
    )
    (tmp_path / "other_part.py").write_text("class Part:\n    made = 42\n")
    (tmp_path / "other_broken.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_distribution_that_adds_a_family_is_found_with_its_version(other: Path) -> None:
    found = installed("jumar.families", foreign_only=True)
    assert [(plugin.name, plugin.distribution, plugin.version) for plugin in found] == [
        ("broken", "other", "1.2"),
        ("good", "other", "1.2"),
    ]


def test_a_plugin_loads_down_to_its_attribute(other: Path) -> None:
    good = next(p for p in installed("jumar.families", foreign_only=True) if p.name == "good")
    assert load(good) == 42


def test_a_plugin_that_fails_names_itself_and_keeps_the_cause(other: Path) -> None:
    broken = next(p for p in installed("jumar.families", foreign_only=True) if p.name == "broken")
    with pytest.raises(PluginFailed, match="'broken'.*of other 1.2") as failed:
        load(broken)
    assert isinstance(failed.value.__cause__, ModuleNotFoundError)


def test_without_other_distributions_nothing_foreign_is_found() -> None:
    assert installed("jumar.no_such_group", foreign_only=True) == []
