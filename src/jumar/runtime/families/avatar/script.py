"""A script as a model: each request is a command in a watched process."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jumar.contracts.errors import InvalidModelOutput, RunFailed
from jumar.devices import remedy
from jumar.isolate import Command, Outcome, Output, Returned
from jumar.runtime.families.avatar.checkout import Checkout
from jumar.runtime.families.avatar.launch import Launch
from jumar.runtime.families.avatar.video import read
from jumar.runtime.families.base import Draft, LoadPlan
from jumar.runtime.families.waiting import until_done
from jumar.runtime.run import Run

_STEP = re.compile(r"(?<![\w/.])(\d+)\s*/\s*(\d+)(?![\w/.])")
_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception): \S.*")
_QUOTED = 40
"""Lines of the script's end in an error: torchrun's own summary takes 25 of them."""


class ScriptOutput(Exception):
    """The end of what a script wrote, as the cause of an error."""


class Script:
    """One command per request; nothing is held between two of them."""

    def __init__(self, plan: LoadPlan, checkout: Checkout, launch: Launch) -> None:
        self._plan = plan
        self._options = plan.manifest.options
        self._checkout = checkout
        self._launch = launch

    def generate(self, run: Run) -> list[Draft]:
        """Run the script in a folder of its own, and take the video that it wrote.

        Raises:
            RunFailed: it failed, or was silent for too long; the cause is the end of its output.
            InvalidModelOutput: it ended well without a video that can be read.
        """
        self._tell(run)
        with run.stage("generate"), TemporaryDirectory(prefix="jumar-") as folder:
            values = self._values(run, Path(folder))
            try:
                return [self._video(values["output"], self._run(run, values))]
            finally:
                values["output"].unlink(missing_ok=True)  # it may lie in the checkout

    def close(self) -> None:
        """Nothing is held."""

    def _tell(self, run: Run) -> None:
        """What was decided for the caller, in the report's config and warnings."""
        run.config.update(self._launch.config())
        for note in run.inputs["image"].notes:
            run.warn(note)
        if self._plan.config["visible_devices"]:
            run.warn(
                f"The script sees the cards {self._launch.cards}, as visible_devices says;"
                f" room was looked for on {self._plan.placement.device.label} alone."
            )

    def _values(self, run: Run, work: Path) -> dict[str, Any]:
        """All that arguments and variables can be made from, by the names that manifests use.

        The script gets an upright picture without alpha. The picture's name tells this run from
        all others, where a script names its result after it.
        """
        image = work / f"{work.name}.png"
        run.inputs["image"].image.save(image)
        values = {
            **run.inputs,
            **run.config,
            **self._checkout.folders,
            "image": image,
            # FlashTalk takes `res_` off for its interim file: without, it is the result's own.
            "output": work / "res_video.mp4",
            "request": work / "request.json",
            "device": self._launch.kind,
            "processes": self._launch.processes,
        }
        if fields := self._options.get("request"):
            item = {field: _plain(values.get(name)) for field, name in fields.items()}
            values["request"].write_text(json.dumps([item], ensure_ascii=False), encoding="utf-8")
        if written := self._options.get("writes"):
            stems = {name: values[name].name.split(".")[0] for name in ("image", "audio")}
            values["output"] = self._checkout.folder / written.format(**stems)
        return values

    def _run(self, run: Run, values: Mapping[str, Any]) -> Output:
        arguments = [*_arguments(self._options["arguments"], values)]
        argv = self._launch.argv(self._checkout.script, arguments, self._checkout.sourced)
        environ = {
            **self._options.get("constants", {}).get(self._launch.kind, {}),
            **_variables(self._options.get("environment", {}), values),
            **self._launch.environment(),
        }
        with (
            ThreadPoolExecutor(1) as thread,
            Command(argv, env=environ, cwd=self._checkout.folder) as command,
        ):
            ended = thread.submit(command.wait, heartbeat=run.config["idle_timeout"])
            outcome = until_done(ended, _progress(run, command.output, self._options))
        if not isinstance(outcome, Returned):
            raise self._failed(outcome)
        written: Output = outcome.value
        return written

    def _video(self, path: Path, output: Output) -> Draft:
        name = self._checkout.script.name
        try:
            if not path.is_file():
                raise InvalidModelOutput(f"{name} ended well and wrote no video.")
            return read(path.read_bytes(), name)
        except InvalidModelOutput as error:
            raise error from ScriptOutput("\n".join(_lines(output)[-_QUOTED:]))

    def _failed(self, outcome: Outcome) -> RunFailed:
        output, reason = outcome.output, outcome.reason  # type: ignore[union-attr]
        lines = _lines(output)
        named = [found[0] for line in lines if (found := _ERROR.search(line))]
        last = (named or lines or ["nothing"])[-1]
        failed = RunFailed(
            f"{self._checkout.script.name} failed. {reason} It wrote: {last}",
            hint=remedy("\n".join(lines)),
        )
        failed.__cause__ = ScriptOutput("\n".join(lines[-_QUOTED:]))
        return failed


def _arguments(flags: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[str]:
    """A switch that is on is its flag alone; what is off or not given is left out."""
    for flag, name in flags.items():
        value = values.get(name)
        if value is True:
            yield flag
        elif value is not None and value is not False:
            yield f"{flag}={value}"


def _variables(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    known = {variable: values.get(name) for variable, name in names.items()}
    return {
        variable: str(int(value) if isinstance(value, bool) else value)
        for variable, value in known.items()
        if value is not None
    }


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _progress(
    run: Run, output: Callable[[], Output], options: Mapping[str, Any]
) -> Callable[[], None]:
    """Tell the run of the steps that the script writes of: the manifest's pattern, which counts
    from 0, else the last `n/m`. The report keeps each once."""
    pattern = options.get("progress")
    last: tuple[int, int | None] = (0, None)

    def look() -> None:
        nonlocal last
        step, text = last, "\n".join(_lines(output()))
        if pattern and (numbers := re.findall(pattern, text)):
            step = (int(numbers[-1]) + 1, None)
        elif pairs := _STEP.findall(text):
            step = (int(pairs[-1][0]), int(pairs[-1][1]))
        new, last = step != last, step
        run.step(*step, kept=new)

    return look


def _lines(output: Output) -> list[str]:
    """All lines with something in them, those of stderr last; a bar's `\\r` begins a new one."""
    text = (output.stdout + b"\n" + output.stderr).decode("utf-8", "replace")
    return [line.rstrip() for line in text.splitlines() if line.strip()]
