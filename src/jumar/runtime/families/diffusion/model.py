"""A loaded pipeline, and the pipelines of the model's other tasks around the same weights."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from jumar.contracts.errors import InvalidRequest, InvalidValue, RunFailed
from jumar.parity.answers import Answer, apart
from jumar.runtime.families.base import Draft, LoadPlan
from jumar.runtime.families.diffusion.call import arguments_for
from jumar.runtime.families.diffusion.libraries import heard
from jumar.runtime.families.diffusion.loading import load_pipeline, pipeline_class, sharing
from jumar.runtime.families.diffusion.memory import share_offload
from jumar.runtime.families.diffusion.outputs import drafts_of
from jumar.runtime.families.diffusion.prompts import cut_words
from jumar.runtime.families.diffusion.schedulers import sampling_with
from jumar.runtime.families.diffusion.together import merged, part_of, shape_of
from jumar.runtime.families.diffusion.watch import Watch, call_parameters
from jumar.runtime.run import Run

T = TypeVar("T")

NATIVE = "native"
"""The value of `scheduler` that means the model's own."""


class DiffusionModel:
    """One set of weights on one device, for all tasks of its manifest."""

    def __init__(self, plan: LoadPlan, run: Run) -> None:
        self._plan = plan
        pipeline = load_pipeline(plan, run)
        self._pipelines = {type(pipeline).__name__: pipeline}
        self._dtypes = {name: part.dtype for name, part in _modules(pipeline).items()}
        self.dtype = run.config["dtype"]
        self._independent: dict[Hashable, str | None] = {}  # rows of a shape; else what is wrong

    def generate(self, run: Run) -> list[Draft]:
        """Draw what the run asks for.

        Raises:
            InvalidValue: a scheduler that does not fit this model.
            InvalidModelOutput: latents, pictures or frames that cannot be right.
        """
        arguments = self._prepared(run)
        return drafts_of(self._call(arguments, run), run)

    def generate_together(self, shared: Run, runs: Sequence[Run]) -> list[list[Draft] | Exception]:
        """Draw what several runs ask for in one call; each gets its drafts, or an error of its own.

        The first call of a shape is compared: its last picture is drawn alone as well.

        Raises:
            RunFailed: rows of such a call are not independent here, today or when it was tried.
        """
        prepared = [_tried(self._prepared, run) for run in runs]
        calls = {at: one for at, one in enumerate(prepared) if not isinstance(one, Exception)}
        drawn: list[Any] = list(prepared)
        if calls:
            arguments, parts = merged(list(calls.values()))
            shares = [(runs[at], rows) for at, rows in zip(calls, parts, strict=True)]
            result = self._independently(arguments, shared, shares)
            for at, rows in zip(calls, parts, strict=True):
                drawn[at] = _tried(drafts_of, part_of(result, rows), runs[at])
        return drawn

    def close(self) -> None:
        """Let go of the weights."""
        for pipeline in self._pipelines.values():
            pipeline.remove_all_hooks()
        self._pipelines.clear()

    def _prepared(self, run: Run) -> dict[str, Any]:
        """The arguments of the run's call."""
        run.config["dtype"] = self.dtype
        with run.stage("prepare"):
            pipeline = self._pipeline_of(run)
            arguments = {"output_type": "np", **arguments_for(run)}
            _check_call(pipeline, arguments)
            self._tell_of_cut_words(pipeline, run)
        return arguments

    def _independently(
        self, arguments: dict[str, Any], shared: Run, shares: Sequence[tuple[Run, slice]]
    ) -> Any:
        """What the call returns, where its rows are what they would be alone."""
        rows, (last, _) = len(arguments["generator"]), shares[-1]
        shape = shape_of(arguments, last.request.task, last.config.get("scheduler"), rows)
        if self._independent.get(shape) is None:
            result = self._call(arguments, shared, shares)
            if shape not in self._independent:
                with shared.stage("compare"):
                    self._independent[shape] = self._differs(result.images[-1], shared, last)
        if (reason := self._independent[shape]) is not None:
            raise RunFailed(f"Drawn with others a picture is not what it is alone: {reason}.")
        return result

    def _differs(self, drawn: Any, shared: Run, run: Run) -> str | None:
        """What is wrong with the run's last picture beside the same one drawn alone."""
        seed = run.config["seed"] + (run.config.get("num_images_per_prompt") or 1) - 1
        config = {**run.config, "seed": seed, "num_images_per_prompt": 1}
        again = Run(
            replace(run.request, config=config),
            run.inputs,
            listener=lambda event: shared.emit("comparing", kept=False),  # a sign of life
            cancel=shared.cancel,
        )
        alone = self._call({"output_type": "np", **arguments_for(again)}, again).images[0]
        on_cpu = self._plan.placement.device.kind == "cpu" and self.dtype == "fp32"
        wanted, got = (Answer("picture", (one * 255.0).round()) for one in (alone, drawn))
        far = apart(wanted, got, rounding="cpu" if on_cpu else self.dtype)
        return None if far is None else far.reason

    def _call(
        self, arguments: dict[str, Any], run: Run, shares: Sequence[tuple[Run, slice]] = ()
    ) -> Any:
        pipeline = self._pipeline_of(run)
        asked = run.config.get("scheduler")
        name = None if asked == NATIVE else asked
        own = run.request.spec.options.get("schedulers", {})
        watch = Watch(pipeline, run, self._plan.placement.device.kind, shares)
        try:
            with sampling_with(pipeline, name, own), watch.following(), heard(run):
                return pipeline(**arguments, **watch.arguments)
        except (AssertionError, AttributeError, TypeError, ValueError) as error:
            self._mend(pipeline)
            if name is None or watch.steps_done:
                raise
            raise InvalidValue(
                f"{type(pipeline).__name__} does not work with scheduler {name!r}.",
                hint=f"Take {NATIVE!r}, which comes with the model.",
                param="config.scheduler",
            ) from error
        except BaseException:
            self._mend(pipeline)
            raise

    def _pipeline_of(self, run: Run) -> Any:
        name = run.request.spec.options["pipeline"]
        if name not in self._pipelines:
            first = next(iter(self._pipelines.values()))
            pipeline = sharing(first, pipeline_class(name))
            share_offload(pipeline, self._plan.config, self._plan.placement)
            self._pipelines[name] = pipeline
        return self._pipelines[name]

    def _tell_of_cut_words(self, pipeline: Any, run: Run) -> None:
        for key in ("prompt", "negative_prompt"):
            prompt = run.inputs.get(key)
            if prompt:
                for tokenizer, words in cut_words(pipeline, prompt, run.config).items():
                    run.warn(f"The {key} is too long for {tokenizer}; it does not see: {words!r}")

    def _mend(self, pipeline: Any) -> None:
        """After a call cut short: offloaded parts go back, an upcast VAE gets its dtype back."""
        pipeline.maybe_free_model_hooks()
        for name, part in _modules(pipeline).items():
            if part.dtype != self._dtypes.get(name, part.dtype):
                part.to(self._dtypes[name])


def _tried(work: Callable[..., T], *arguments: Any) -> T | Exception:
    """What it gives, or the error that it ends with, which is one caller's alone."""
    try:
        return work(*arguments)
    except Exception as error:  # noqa: BLE001  (whatever it is; it becomes that caller's answer)
        return error


def _check_call(pipeline: Any, arguments: dict[str, Any]) -> None:
    """Some pipelines take any keyword and drop what they do not know: nothing may get lost."""
    if unknown := arguments.keys() - call_parameters(pipeline):
        raise InvalidRequest(
            f"{type(pipeline).__name__} takes no {', '.join(sorted(unknown))}.",
            hint="Its manifest says under options.call how keys are passed.",
        )


def _modules(pipeline: Any) -> dict[str, Any]:
    from torch.nn import Module

    return {name: part for name, part in pipeline.components.items() if isinstance(part, Module)}
