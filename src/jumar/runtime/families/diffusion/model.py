"""A loaded pipeline, and the pipelines of the model's other tasks around the same weights."""

from __future__ import annotations

from typing import Any

from jumar.contracts.errors import InvalidRequest, InvalidValue
from jumar.runtime.families.base import Draft, LoadPlan
from jumar.runtime.families.diffusion.call import arguments_for
from jumar.runtime.families.diffusion.libraries import heard
from jumar.runtime.families.diffusion.loading import load_pipeline, pipeline_class, sharing
from jumar.runtime.families.diffusion.memory import share_offload
from jumar.runtime.families.diffusion.outputs import drafts_of
from jumar.runtime.families.diffusion.prompts import cut_words
from jumar.runtime.families.diffusion.schedulers import sampling_with
from jumar.runtime.families.diffusion.watch import Watch, call_parameters
from jumar.runtime.run import Run

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

    def generate(self, run: Run) -> list[Draft]:
        """Draw what the run asks for.

        Raises:
            InvalidValue: a scheduler that does not fit this model.
            InvalidModelOutput: latents, pictures or frames that cannot be right.
        """
        run.config["dtype"] = self.dtype
        with run.stage("prepare"):
            pipeline = self._pipeline(run.request.spec.options["pipeline"])
            arguments = {"output_type": "np", **arguments_for(run)}
            _check_call(pipeline, arguments)
            self._tell_of_cut_words(pipeline, run)
        return drafts_of(self._call(pipeline, arguments, run), run)

    def close(self) -> None:
        """Let go of the weights."""
        for pipeline in self._pipelines.values():
            pipeline.remove_all_hooks()
        self._pipelines.clear()

    def _call(self, pipeline: Any, arguments: dict[str, Any], run: Run) -> Any:
        asked = run.config.get("scheduler")
        name = None if asked == NATIVE else asked
        own = run.request.spec.options.get("schedulers", {})
        watch = Watch(pipeline, run, self._plan.placement.device.kind)
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

    def _pipeline(self, name: str) -> Any:
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
