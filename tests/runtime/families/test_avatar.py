"""A script of somebody else's checkout, run as a command and believed in nothing."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import avatars

from jumar import catalog
from jumar.contracts.errors import (
    Cancelled,
    DeadlineExceeded,
    DependencyMissing,
    InvalidInput,
    InvalidModelOutput,
    InvalidValue,
    RunFailed,
    WeightsUnavailable,
)
from jumar.contracts.requests import audio2video
from jumar.devices import Device, Placement
from jumar.isolate import Output
from jumar.runtime.families import Draft, LoadPlan
from jumar.runtime.families.avatar import Avatar
from jumar.runtime.families.avatar.script import _progress
from jumar.runtime.run import Run

pytest.importorskip("av")
pytest.importorskip("PIL")

FLASHTALK, FLASHHEAD, LIVEACT = "soulx-flashtalk-14b", "soulx-flashhead-1.3b", "soulx-liveact-14b"
CARD = Device("npu", 1, "Ascend910B1")
NAMES = ("FLASHTALK", "FLASHHEAD", "LIVEACT")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [n for n in os.environ if any(model in n for model in NAMES)]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")


class Avatars:
    """Asks for a video of the two inputs, with the checkout or without."""

    def __init__(self, folder: Path) -> None:
        self.repository = avatars.checkout(folder)
        self.image, self.audio = avatars.inputs(folder)
        self.warnings: list[str] = []
        self.steps: list[tuple[int, int | None]] = []
        self.config: dict[str, Any] = {}

    def __call__(
        self,
        model: str = FLASHTALK,
        *,
        prompt: str | None = None,
        device: Device = CARD,
        cancel: threading.Event | None = None,
        deadline: float | None = None,
        **config: Any,
    ) -> Draft:
        config = {"repo_path": str(self.repository), **config}
        request = audio2video(model, self.image, self.audio, prompt=prompt, **config)
        resolved = catalog.resolve(request)
        placement = Placement(device, device.kind, "ascend", "ascend", "for the test")
        plan = LoadPlan(resolved.manifest, resolved.task, resolved.load_config, {}, placement)
        family = Avatar()

        def listen(event: Any) -> None:
            if event.event == "step":
                self.steps.append((event.data["done"], event.data["total"]))

        run = Run(
            resolved,
            family.prepare(resolved),
            listener=listen,
            cancel=cancel,
            deadline=deadline and time.monotonic() + deadline,
        )
        (draft,) = family.load(plan, run).generate(run)
        self.warnings, self.config = run.warnings, run.config
        return draft

    def seen(self) -> dict[str, Any]:
        """What the script was given."""
        found: dict[str, Any] = json.loads((self.repository / "seen.json").read_text())
        return found

    def arguments(self) -> dict[str, str]:
        return dict(text.partition("=")[::2] for text in self.seen()["argv"])


@pytest.fixture
def make(tmp_path: Path) -> Avatars:
    return Avatars(tmp_path)


def test_the_video_of_the_script_becomes_the_artifact(make: Avatars, tmp_path: Path) -> None:
    draft = make()
    with (tmp_path / "out.mp4").open("wb") as file:
        draft.write(file)
    assert (draft.width, draft.height, draft.num_frames) == (*avatars.SIZE, 10)
    assert draft.fps == 25 and draft.duration_s == pytest.approx(avatars.SECONDS)
    assert (draft.mime, draft.suffix) == ("video/mp4", ".mp4")
    assert (tmp_path / "out.mp4").read_bytes()[4:8] == b"ftyp"


def test_it_is_called_with_the_names_of_the_public_script(make: Avatars) -> None:
    make(prompt="--a man, 'smiling'; $HOME", cpu_offload=True, seed=7)
    said = make.arguments()
    assert said["--input_prompt"] == "--a man, 'smiling'; $HOME"
    assert said["--base_seed"] == "7" and said["--audio_encode_mode"] == "stream"
    assert said["--cpu_offload"] == ""
    assert said["--ckpt_dir"] == f"{make.repository}/models/SoulX-FlashTalk-14B"
    assert said["--audio_path"] == str(make.audio)
    assert said["--cond_image"].endswith(".png")
    assert not Path(said["--cond_image"]).exists(), "the working folder goes with the run"
    assert "--max_chunks" not in said, "only the port to Ascend knows it"


def test_what_only_a_port_knows_is_passed_on_where_it_is_set(make: Avatars) -> None:
    with pytest.raises(RunFailed, match="unrecognized arguments: --max_chunks=3"):
        make(max_chunks=3)


def test_the_script_sees_the_placed_card_and_no_gpu(
    make: Avatars, monkeypatch: pytest.MonkeyPatch
) -> None:
    make()
    assert make.seen()["environ"]["ASCEND_RT_VISIBLE_DEVICES"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in make.seen()["environ"]
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "4,6")
    make()
    assert make.seen()["environ"]["ASCEND_RT_VISIBLE_DEVICES"] == "6"
    make(device=Device("cuda", 1, "a GPU"))
    assert make.seen()["environ"]["CUDA_VISIBLE_DEVICES"] == "5"
    assert "ASCEND_RT_VISIBLE_DEVICES" not in make.seen()["environ"]


def test_cards_that_are_named_are_taken_and_told(make: Avatars) -> None:
    make(visible_devices="2,3", launcher="python")
    assert make.seen()["environ"]["ASCEND_RT_VISIBLE_DEVICES"] == "2,3"
    assert any("sees the cards 2,3" in warning for warning in make.warnings)
    with pytest.raises(InvalidValue, match="a blank ends the list"):
        make(visible_devices="2, 3")


def test_what_was_decided_stands_in_the_config(make: Avatars) -> None:
    make()
    decided = {"launcher": "python", "nproc_per_node": 1, "visible_devices": "1"}
    assert decided.items() <= make.config.items()
    assert make.config["python_executable"] == sys.executable
    assert make.seen()["environ"]["GPU_NUM"] == "1"


def recorder(folder: Path, name: str) -> Path:
    """A program that writes down its arguments, and makes no video."""
    program = folder / name
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$(dirname "$0")/called"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("config", "start"),
    [
        (
            {"visible_devices": "0,1"},
            ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"],
        ),
        (
            {"visible_devices": "0,1,2", "launcher": "accelerate", "num_processes": 3},
            ["launch", "--num_processes", "3"],
        ),
        ({"visible_devices": "0,1", "launcher": "python"}, []),
    ],
)
def test_several_cards_get_a_process_each(
    make: Avatars, tmp_path: Path, config: dict[str, Any], start: list[str]
) -> None:
    program = str(recorder(tmp_path, "program"))
    with pytest.raises(InvalidModelOutput, match="wrote no video"):
        make(python_executable=program, accelerate_executable=program, **config)
    called = (tmp_path / "called").read_text().splitlines()
    assert called[: len(start) + 1] == [*start, f"{make.repository}/generate_video.py"]


def test_more_processes_than_cards_are_refused(make: Avatars) -> None:
    with pytest.raises(InvalidValue, match="8 processes need as many cards") as refused:
        make(nproc_per_node=8)
    assert refused.value.hint == "Name the cards: --visible-devices 0,1"


def test_a_sourced_script_sets_the_environment_and_sees_no_argument_of_ours(
    make: Avatars, tmp_path: Path
) -> None:
    script = tmp_path / "set env's.sh"
    script.write_text('export ASCEND_HOME="arguments: $#"\n')
    make(ascend_env_script=str(script), prompt="two words")
    assert make.seen()["environ"]["ASCEND_HOME"] == "arguments: 0"
    assert make.arguments()["--input_prompt"] == "two words"
    script.write_text("echo the toolkit is gone >&2; return 3\n")
    with pytest.raises(RunFailed, match="the toolkit is gone"):
        make(env_script=str(script))
    with pytest.raises(InvalidValue, match=r"no file .*nowhere\.sh \(ascend_env_script\)"):
        make(ascend_env_script=str(tmp_path / "nowhere.sh"))


def test_the_ascend_script_is_for_npus_alone(make: Avatars, tmp_path: Path) -> None:
    (tmp_path / "ascend.sh").write_text("export SOURCED=ascend\n")
    make(device=Device("cuda", 0, "a GPU"), ascend_env_script=str(tmp_path / "ascend.sh"))
    assert "SOURCED" not in make.seen()["environ"]


def test_flashhead_is_told_its_switches_by_variables(make: Avatars) -> None:
    make(FLASHHEAD, latent_carry=True)
    environ = make.seen()["environ"]
    switches = {key: value for key, value in environ.items() if key.startswith("FLASHHEAD_")}
    assert switches == {
        "FLASHHEAD_DEVICE": "npu",
        "FLASHHEAD_SAMPLE_STEPS": "2",
        "FLASHHEAD_VAE_2D_SPLIT": "1",
        "FLASHHEAD_LATENT_CARRY": "1",
        "FLASHHEAD_NPU_FUSION_ATTENTION": "1",
        "FLASHHEAD_PROFILE": "0",
    }
    assert make.arguments()["--model_type"] == "pro"


def test_liveact_reads_a_file_and_leaves_nothing_in_the_checkout(make: Avatars) -> None:
    before = sorted(make.repository.iterdir())
    draft = make(LIVEACT, size="32*16")
    assert (draft.width, draft.height) == (32, 16)
    assert sorted(p for p in make.repository.iterdir() if p.name != "__pycache__") == before


def test_a_turned_photo_is_given_upright(make: Avatars) -> None:
    from PIL import Image

    turned = Image.new("RGB", avatars.SIZE, "grey")
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    make.image = make.image.with_suffix(".jpg")
    turned.save(make.image, exif=exif)
    assert (make().width, make().height) == avatars.SIZE[::-1]


def test_progress_is_read_from_the_log(make: Avatars) -> None:
    make(prompt="slow")
    assert 1 <= make.steps[-1][0] <= 3
    assert make.steps == sorted(make.steps)


def test_a_crash_is_told_with_its_error_line_and_the_end_of_the_output(make: Avatars) -> None:
    with pytest.raises(RunFailed, match=r"exit code 1\..*RuntimeError: HCCL error: no l") as failed:
        make(prompt="crash")
    assert "Traceback" in str(failed.value.cause)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("nothing", "ended well and wrote no video"),
        ("broken", "wrote no video that can be read"),
        ("empty", "wrote"),
    ],
)
def test_no_video_is_an_error_with_the_last_lines(make: Avatars, prompt: str, said: str) -> None:
    with pytest.raises(InvalidModelOutput, match=said) as failed:
        make(prompt=prompt)
    if prompt == "nothing":
        assert "ffmpeg: unknown codec" in str(failed.value.cause)


def test_silence_ends_it(make: Avatars) -> None:
    with pytest.raises(RunFailed, match=r"made no progress for 0\.5 s and was ended"):
        make(prompt="hang", idle_timeout=0.5)


def test_a_deadline_ends_it(make: Avatars) -> None:
    with pytest.raises(DeadlineExceeded, match="during generate"):
        make(prompt="hang", deadline=1.5)


def test_a_caller_ends_it(make: Avatars) -> None:
    cancel = threading.Event()
    timer = threading.Timer(0.5, cancel.set)
    timer.start()
    with pytest.raises(Cancelled):
        make(prompt="hang", cancel=cancel)
    timer.join()


def test_without_a_checkout_the_error_says_how_to_get_one(make: Avatars) -> None:
    with pytest.raises(WeightsUnavailable, match="run from a checkout of its repo") as refused:
        make(repo_path=None)
    assert refused.value.param == "config.repo_path"
    assert "git clone https://github.com/Soul-AILab/SoulX-FlashTalk" in str(refused.value.hint)
    assert "JUMAR_FLASHTALK_REPO_PATH or OMNIRT_FLASHTALK_REPO_PATH" in str(refused.value.hint)


def gone(make: Avatars, name: str) -> None:
    path = make.repository / name
    path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    ("spoil", "said", "hint"),
    [
        (lambda m: gone(m, "generate_video.py"), "has no generate_video.py", "git clone"),
        (
            lambda m: gone(m, "models/chinese-wav2vec2-base"),
            r"no folder .*chinese-wav2vec2-base \(wav2vec_dir\)",
            "hf download TencentGameMate/chinese-wav2vec2-base --local-dir",
        ),
    ],
)
def test_a_checkout_that_lacks_something_says_what(
    make: Avatars, spoil: Callable[[Avatars], None], said: str, hint: str
) -> None:
    spoil(make)
    with pytest.raises(WeightsUnavailable, match=said) as refused:
        make()
    assert hint in str(refused.value.hint)
    assert not (make.repository / "seen.json").exists()


def test_a_python_that_is_not_there_is_named(make: Avatars) -> None:
    with pytest.raises(DependencyMissing, match="no program '/opt/none/python'"):
        make(python_executable="/opt/none/python")


def test_bad_inputs_end_before_anything_runs(make: Avatars) -> None:
    make.audio.write_bytes(b"no sound")
    with pytest.raises(InvalidInput, match="no sound file"):
        make()
    assert not (make.repository / "seen.json").exists()


def test_weights_under_another_name_are_refused(make: Avatars) -> None:
    with pytest.raises(InvalidValue, match="in ckpt_dir, not in model_path"):
        make(model_path="/weights")


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (b"Loading: 100%|####| 3/7 [00:01]", (3, 7)),
        (b"chunk-4 done\n2/2", (5, None)),
        (b"on 30/11/2026 in /a/1/2 v1.2/3", None),
    ],
)
def test_a_step_is_told_from_a_date_and_a_path(
    line: bytes, step: tuple[int, int | None] | None
) -> None:
    told: list[tuple[int, int | None]] = []

    class Listening:
        def step(self, done: int, total: int | None, *, kept: bool) -> None:
            if kept:
                told.append((done, total))

    output = Output(stderr=line)
    look = _progress(Listening(), lambda: output, {"progress": r"chunk-(\d+) done"})  # type: ignore[arg-type]
    look()
    look()
    assert told == ([] if step is None else [step]), "kept once"


def test_the_cpu_is_refused() -> None:
    cpu = Placement(Device("cpu", 0, "a CPU"), "cpu", "cpu", "cpu", "for the test")
    assert Avatar().refuses(cpu) == "its script needs an NPU or a CUDA GPU"
