"""`jumar generate`, with a model that does as it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.support import toy

from jumar.contracts.results import GenerateResult

HELP_OF_HIBARI = """\
Inputs of hibari:
  --prompt TEXT                   What to say.  [required]

Config of hibari:
  --speed NUMBER                  1 is the voice's own speed.  [0.5 to 2;
                                  default 1]
  --seed INTEGER                  Equal seeds give equal results. Drawn, and
                                  recorded, where it is not given.  [at least 0]
  --response-format [wav|flac|mp3|ogg|opus]
                                  File format of the result.  [default wav]
  --sample-rate INTEGER           Sample rate.  [8000 to 48000 Hz]

Loading of hibari:
  --model-path PATH               Use the weights in this folder or hub
                                  repository.

Every model:
  --preset [fast|balanced|quality|low-vram]
                                  A set of values for the keys that are not
                                  given.
  --output-dir PATH               Folder for the artifacts and the report.
  --request-id TEXT               A name for this request in reports.
  --timeout NUMBER                Stop the run after this time.  [0.001 to
                                  604800 s]

Options:
  -m, --model MODEL               Id or alias.
"""

STUBBORN = """
import os, time
from jumar.cli.stopping import stoppable

def work(cancel):
    print("begun", flush=True)
    time.sleep(600)

stoppable(
    work,
    on_first=lambda: os.write(1, b"first\\n"),
    on_second=lambda: os.write(1, b"second\\n") and 1 / 0,
)
"""

ROOT = Path(__file__).parents[2]


def test_the_paths_stand_alone_on_stdout(run: Shell) -> None:
    assert run("generate", "--model", "toy", "--prompt", "one and two").code == 0
    paths = [Path(line) for line in run.out.splitlines()]
    assert [path.read_text() for path in paths] == ["one and two/0", "one and two/1"]


def test_the_summary_says_device_time_and_run(run: Shell) -> None:
    err = run("generate", "--model", "toy", "--prompt", "x").err
    (report,) = (run.folder / "jumar-out").glob("*.report.json")
    assert err.startswith("toy on cpu · ")
    assert err.endswith(f"ms · run {report.name.removesuffix('.report.json')}\n")


def test_warnings_are_shown(run: Shell) -> None:
    run("generate", "--model", "toy", "--prompt", "hoarse")
    assert run.err.startswith("warning: The voice is hoarse.\n")


def test_quiet_leaves_only_what_was_made(run: Shell) -> None:
    run("generate", "--model", "toy", "--prompt", "hoarse", "--quiet")
    assert run.err == ""
    assert len(run.out.splitlines()) == 1


def test_json_is_the_result_and_nothing_else(run: Shell) -> None:
    run("generate", "--model", "toy", "--prompt", "x", "--json")
    result = GenerateResult.model_validate(run.json)
    assert run.err == ""
    assert result.ok
    assert Path(result.outputs[0].path).read_text() == "x/0"


def test_verbose_tells_each_stage_where_there_is_no_terminal(run: Shell) -> None:
    err = run("generate", "--model", "toy", "--prompt", "x", "--verbose").err
    stages = [line.partition(":")[0] for line in err.splitlines()[:-1]]
    assert stages == ["fetch", "load", "speak", "export"]


@pytest.mark.parametrize(
    ("prompt", "code", "first"),
    [
        ("fail", 1, "error[run_failed]: The model failed while it ran."),
        ("oom", 3, "error[insufficient_memory]: The device ran out of memory."),
        ("disk full", 4, "error[output_failed]: Cannot write to jumar-out: the disk is full."),
        ("unreadable", 2, "error[invalid_input]: This prompt is unreadable."),
    ],
)
def test_each_failure_has_its_text_and_exit_code(
    prompt: str, code: int, first: str, run: Shell
) -> None:
    assert run("generate", "--model", "toy", "--prompt", prompt).code == code
    assert run.err.splitlines()[0] == first
    assert run.out == ""


def test_a_failed_run_names_its_report_and_its_cause(run: Shell) -> None:
    run("generate", "--model", "toy", "--prompt", "fail", "--out", "made")
    (report,) = (run.folder / "made").glob("*.report.json")
    assert run.err.splitlines()[2:] == [
        "cause: RuntimeError: aclnnSomething failed, error code is 561002",
        f"report: made/{report.name}",
    ]


def test_a_failed_run_with_json_is_a_result_that_holds_the_error(run: Shell) -> None:
    assert run("generate", "--model", "toy", "--prompt", "fail", "--json").code == 1
    assert run.json["outputs"] == []
    assert run.json["metadata"]["error_detail"]["code"] == "run_failed"


def test_a_file_is_not_replaced_unless_it_is_said(run: Shell) -> None:
    line = ("generate", "--model", "toy", "--out", "a.wav", "--prompt")
    run(*line, "first")
    assert run(*line, "second").code == 4
    assert "--overwrite" in run.err
    assert (run.folder / "a.wav").read_text() == "first/0"
    assert run(*line, "second", "--overwrite").code == 0
    assert (run.folder / "a.wav").read_text() == "second/0"


def test_a_dry_run_shows_the_request_and_makes_nothing(run: Shell) -> None:
    assert run("generate", "--model", "toy", "--prompt", "x", "--dry-run").code == 0
    assert "speed   1.0  default" in run.out
    assert list(run.folder.iterdir()) == []


class TestMerging:
    @pytest.fixture
    def file(self, run: Shell) -> str:
        request = {
            "task": "text2audio",
            "model": "toy",
            "inputs": {"prompt": "from the file"},
            "config": {"speed": 1.5, "seed": 1},
        }
        (run.folder / "request.json").write_text(json.dumps(request))
        return "request.json"

    def test_a_file_alone_is_a_request(self, file: str, run: Shell) -> None:
        run("generate", file)
        assert Path(run.out.strip()).read_text() == "from the file/0"

    def test_flags_win_over_the_file_and_set_wins_over_flags(self, file: str, run: Shell) -> None:
        run("validate", file, "--prompt", "x", "--seed", "2", "--set", "seed=3", "--json")
        assert run.json["inputs"] == {"prompt": "x"}
        assert run.json["config"]["speed"] == 1.5
        assert run.json["config"]["seed"] == 3

    def test_the_option_of_omnirt_names_the_file_too(self, file: str, run: Shell) -> None:
        run("validate", "--config", file, "--json")
        assert run.json["inputs"] == {"prompt": "from the file"}

    def test_a_file_that_is_no_request_says_so(self, run: Shell) -> None:
        (run.folder / "request.yaml").write_text("modle: toy")
        assert run("generate", "request.yaml").code == 2
        assert run.err.splitlines() == [
            "error[unknown_key]: A request has no field 'modle'.",
            "hint: Did you mean 'model'?",
        ]

    def test_a_file_that_is_not_there_says_so(self, run: Shell) -> None:
        assert run("generate", "nowhere.yaml").code == 2
        assert run.err.startswith("error[invalid_input]: Cannot read the request file nowhere.yaml")


class TestFlags:
    def test_the_help_of_a_model_shows_its_keys_with_range_and_default(self, run: Shell) -> None:
        shown = run("generate", "--model", "hibari", "--help").out.splitlines()
        assert [line for line in HELP_OF_HIBARI.splitlines() if line not in shown] == []

    def test_without_a_model_the_help_says_how_to_see_the_rest(self, run: Shell) -> None:
        out = run("generate", "--help").out
        assert "--prompt" not in out
        assert "with --model MODEL, this help shows them" in out

    def test_the_keys_of_one_task_are_shown_alone(self, run: Shell) -> None:
        line = ("generate", "--model", "sdxl-digits", "--help")
        assert "--mask FILE" in run(*line).out
        assert "[for inpaint]" in run.out
        assert "--mask FILE" not in run(*line, "--task", "image2image").out

    def test_a_flag_of_another_model_is_refused_by_name(self, run: Shell) -> None:
        assert run("generate", "--model", "toy", "--prompt", "x", "--width", "64").code == 2
        assert run.err.startswith("error[unknown_key]: toy has no flag --width.")

    def test_a_misspelt_flag_names_the_nearest(self, run: Shell) -> None:
        run("generate", "--model", "sdxl-digits", "--prompt", "x", "--steps", "4")
        assert run.err.splitlines() == [
            "error[unknown_key]: sdxl-digits has no flag --steps.",
            "hint: Did you mean --num-inference-steps?",
        ]

    def test_a_flag_without_a_model_asks_for_the_model(self, run: Shell) -> None:
        assert run("generate", "--prompt", "x").code == 2
        assert run.err.splitlines() == [
            "error[unknown_key]: --prompt belongs to a model, and no model is named.",
            "hint: Say --model MODEL. `jumar models` lists them.",
        ]

    def test_an_unknown_model_names_the_nearest(self, run: Shell) -> None:
        assert run("generate", "--model", "hibary", "--prompt", "x").code == 2
        assert run.err.splitlines() == [
            "error[model_not_found]: Unknown model 'hibary'.",
            "hint: Did you mean 'hibari'?",
        ]

    @pytest.mark.parametrize("model", [("--model=toy",), ("-m", "toy"), ("-mtoy",)])
    def test_the_model_may_be_written_in_each_way_that_options_are(
        self, model: tuple[str, ...], run: Shell
    ) -> None:
        assert run("validate", "--prompt", "x", *model).code == 0

    def test_no_model_at_all_is_told(self, run: Shell) -> None:
        assert run("generate").code == 2
        assert run.err.startswith("error[invalid_request]: No model is named.")

    def test_a_number_that_is_none_is_refused_in_the_catalogs_words(self, run: Shell) -> None:
        assert run("generate", "--model", "toy", "--prompt", "x", "--speed", "quick").code == 2
        assert run.err.startswith("error[invalid_value]: config.speed must be a number")

    def test_set_refuses_a_key_that_the_model_does_not_have(self, run: Shell) -> None:
        assert run("generate", "--model", "toy", "--prompt", "x", "--set", "sped=2").code == 2
        assert run.err.startswith(
            "error[unknown_key]: toy has no config key 'sped'.\nhint: Did you"
        )

    def test_set_wants_a_key_and_a_value(self, run: Shell) -> None:
        assert run("generate", "--model", "toy", "--prompt", "x", "--set", "speed").code == 2
        assert "is not KEY=VALUE" in run.err

    @pytest.mark.parametrize(
        ("given", "task"),
        [
            ((), "text2image"),
            (("--image", "{png}"), "image2image"),
            (("--image", "{png}", "--mask", "{png}"), "inpaint"),
        ],
    )
    def test_the_task_follows_from_the_inputs(
        self, given: tuple[str, ...], task: str, run: Shell
    ) -> None:
        line = [arg.format(png="a.png") for arg in given]
        run("validate", "--model", "sdxl-digits", "--prompt", "a red seven", *line, "--json")
        shown = run.json
        assert shown.get("task") == task or "a.png" in shown["errors"][0]["message"]

    def test_switches_have_a_yes_and_a_no(self, run: Shell) -> None:
        assert "--[no-]vad" in run("generate", "--model", "whisper-tiny.en", "--help").out

    def test_lora_weights_come_with_a_scale(self, run: Shell) -> None:
        assert (
            run("generate", "-m", "toy", "--prompt", "x", "--lora", "a@b.safetensors@0.5").code == 2
        )
        assert "takes no lora adapters" in run.err

    def test_a_scale_that_is_no_number_is_refused(self, run: Shell) -> None:
        assert (
            run("generate", "-m", "toy", "--prompt", "x", "--lora", "a.safetensors@big").code == 2
        )
        assert run.err.splitlines() == [
            "error[invalid_value]: --lora 'a.safetensors@big': the scale 'big' is no number.",
            "hint: As in a.safetensors@0.8",
        ]

    @pytest.mark.parametrize(
        ("task", "said"),
        [
            ("text2audi", "error[invalid_request]: Unknown task 'text2audi'."),
            ("text2image", "error[unsupported_surface]: hibari does not do text2image."),
        ],
    )
    def test_a_wrong_task_is_the_error_not_its_flags(
        self, task: str, said: str, run: Shell
    ) -> None:
        assert run("validate", "-m", "hibari", "--task", task, "--prompt", "x").code == 2
        assert run.err.startswith(said)


@pytest.mark.parametrize(
    "line",
    [
        "generate --task text2audio --model hibari --prompt hello --backend cpu --dry-run",
        "validate --task text2audio --model hibari --prompt hello --backend auto --preset fast",
        "validate --task text2image --model sdxl-digits --prompt x --num-inference-steps 4 --json",
        "validate --model sdxl-digits --prompt x --guidance-scale 2.5 --width 32 --seed 1",
        "models --format json --tier core",
        "models hibari --format markdown",
    ],
)
def test_command_lines_of_omnirt_are_understood(line: str, run: Shell) -> None:
    assert run(*line.split()).code == 0, run.err


class TestCtrlC:
    @pytest.fixture
    def slow(self, tmp_path: Path) -> subprocess.Popen[str]:
        site = tmp_path / "site"
        site.mkdir()
        toy.install(site)
        paths = [str(site), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [sys.executable, "-m", "jumar", "generate", "-m", "toy", "--prompt", "slow", "-v"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("load:"):
                return process
        raise AssertionError(f"the run never began: {process.wait()}")

    def test_the_first_one_stops_the_run_and_the_report_is_written(
        self, slow: subprocess.Popen[str], tmp_path: Path
    ) -> None:
        slow.send_signal(signal.SIGINT)
        out, err = slow.communicate(timeout=60)
        assert slow.returncode == 130
        assert out == ""
        assert "stopping…" in err
        assert "error[cancelled]: Stopped by the caller during speak." in err
        (report,) = (tmp_path / "jumar-out").glob("*.report.json")
        assert json.loads(report.read_text())["error_detail"]["code"] == "cancelled"

    def test_the_second_one_ends_a_run_that_does_not_listen(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for said in ("begun", "first"):
            assert process.stdout.readline() == f"{said}\n"
            process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "second\n"
        assert process.returncode == 130
