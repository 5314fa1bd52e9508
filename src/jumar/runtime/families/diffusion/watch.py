"""What happens inside a pipeline's call: its steps, its time, its latents."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from jumar.contracts.errors import InvalidModelOutput
from jumar.runtime.families.diffusion.memory import denoisers
from jumar.runtime.run import Run


class Watch:
    """Follows one call of a pipeline.

    Stages are measured, not guessed: `denoise_loop` lasts from the first forward of a denoiser to
    the end of the last step, `decode` is the time inside the VAE's `decode` (both within
    `pipeline_call`). Each step is reported to the run, which may end the call there. Where the rows
    of the call belong to several runs, `shares` says whose latents they are.
    """

    def __init__(
        self,
        pipeline: Any,
        run: Run,
        device_kind: str,
        shares: Sequence[tuple[Run, slice]] = (),
    ) -> None:
        self._pipeline = pipeline
        self._device_kind = device_kind
        self._run = run
        self._shares = shares or [(run, slice(None))]
        self.steps_done = 0
        self._loop = ExitStack()
        self._loop_begun = False
        accepted = call_parameters(pipeline)
        self._reports_steps = "callback_on_step_end" in accepted
        self._shows_latents = "latents" in getattr(pipeline, "_callback_tensor_inputs", ())

    @property
    def arguments(self) -> dict[str, Any]:
        """What the pipeline's call must be given so that its steps can be followed."""
        if not self._reports_steps:
            return {}
        shown = ["latents"] if self._shows_latents else []
        return {
            "callback_on_step_end": self._on_step_end,
            "callback_on_step_end_tensor_inputs": shown,
        }

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow what runs in the block."""
        with ExitStack() as hooks:
            for module in denoisers(self._pipeline).values():
                hooks.callback(module.register_forward_pre_hook(self._on_forward).remove)
            hooks.enter_context(self._decoding())
            if not self._reports_steps:
                hooks.enter_context(self._counting())
            with self._run.stage("pipeline_call"), self._loop:
                yield

    def _on_forward(self, module: Any, inputs: Any) -> None:
        if not self._loop_begun:
            self._loop_begun = True
            self._loop.enter_context(self._run.stage("denoise_loop"))

    def _on_step_end(
        self, pipeline: Any, step: int, timestep: Any, tensors: dict[str, Any]
    ) -> dict[str, Any]:
        latents = tensors.get("latents")
        total = self._total()
        last = step + 1 == total
        if latents is not None:
            _check(latents, step + 1, pipeline)
            if last:
                for run, rows in self._shares:
                    run.latent_stats = _statistics(latents[rows])
        self._step(total)
        return {}

    def _step(self, total: int | None) -> None:
        self.steps_done += 1
        last = self.steps_done == total
        if last:
            self._synchronize()
        self._run.step(self.steps_done, total)
        if last:
            self._loop.close()

    def _total(self) -> int | None:
        """How many steps the loop has: fewer than asked for where a strength skips the first."""
        steps = getattr(self._pipeline, "num_timesteps", None)
        return steps if isinstance(steps, int) else None

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        """Time the VAE's decoding."""
        vae: Any = getattr(self._pipeline, "vae", None)
        original = getattr(vae, "decode", None)
        if original is None:
            yield
            return

        def decode(*args: Any, **kwargs: Any) -> Any:
            with self._run.stage("decode"):
                decoded = original(*args, **kwargs)
                self._synchronize()
                return decoded

        vae.decode = decode
        try:
            yield
        finally:
            del vae.decode

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Count steps by the pipeline's own progress bar, where it calls nobody back."""
        pipeline, original = self._pipeline, self._pipeline.progress_bar

        def progress_bar(iterable: Any = None, total: int | None = None) -> Any:
            return _Bar(original(iterable, total), lambda: self._step(total))

        pipeline.progress_bar = progress_bar
        try:
            yield
        finally:
            del pipeline.progress_bar
        if self.steps_done == 0:
            self._run.warn(
                f"{type(pipeline).__name__} reports no steps: progress was not shown, and the run"
                " could not have been stopped within its call."
            )

    def _synchronize(self) -> None:
        """Wait for the device: its queue would be measured as part of the next stage."""
        import torch

        if self._device_kind != "cpu":
            torch.get_device_module(self._device_kind).synchronize()


class _Bar:
    """A progress bar that also tells somebody."""

    def __init__(self, bar: Any, on_update: Any) -> None:
        self._bar = bar
        self._on_update = on_update

    def update(self, *args: Any) -> None:
        self._bar.update(*args)
        self._on_update()

    def __enter__(self) -> _Bar:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def __iter__(self) -> Iterator[Any]:
        for item in self._bar:
            yield item
            self._on_update()


def call_parameters(pipeline: Any) -> set[str]:
    """The arguments that the pipeline's call takes by name."""
    return set(inspect.signature(pipeline.__call__).parameters) - {"args", "kwargs"}


def _check(latents: Any, step: int, pipeline: Any) -> None:
    import torch

    if not bool(torch.isfinite(latents).all()):
        names = "/".join(denoisers(pipeline))
        raise InvalidModelOutput(
            f"The latents are not finite after step {step} ({names}, {latents.dtype}).",
            hint="Try dtype bf16 or fp32; fp16 overflows in some models.",
        )


def _statistics(latents: Any) -> dict[str, float]:
    values = latents.detach().float()
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "min": float(values.min()),
        "max": float(values.max()),
    }
