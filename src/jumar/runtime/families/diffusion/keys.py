"""Which key of a request goes where: data that manifests and their tests read without torch.

A manifest says under `tasks.<task>.options`:

    pipeline: StableDiffusionXLPipeline      # a class of diffusers
    call: {guidance_scale: true_cfg_scale}   # key: argument of another name; null: not passed
    fixed: {use_resolution_binning: false}   # arguments that are always passed
    load: {variant: fp16}                    # arguments of from_pretrained
    components: {safety_checker: null}       # see `loading`
    schedulers: {heun: {class: HeunDiscreteScheduler}}    # beyond those of `schedulers`

Every other key reaches the pipeline's `__call__` under its own name, except load-time keys, the
engine's keys, and those in `HERE`.
"""

from __future__ import annotations

from jumar.catalog.manifest import TaskSpec

OPTIONS = ("pipeline", "call", "fixed", "load", "components", "schedulers")
"""All that `tasks.<task>.options` of a diffusion manifest may hold."""

ARGUMENTS = {"mask": "mask_image", "seed": "generator"}
"""Keys whose argument has another name in (nearly) all pipelines."""

HERE = frozenset({"scheduler", "fps", "response_format"})
"""Keys that this family reads itself: the scheduler is swapped, `fps` and the format are for
export. Where a pipeline wants the frame rate too, its manifest says `call: {fps: fps}` (SVD) or
`call: {fps: frame_rate}` (LTX)."""


def call_arguments(spec: TaskSpec) -> dict[str, str]:
    """Each key of the task that is passed to the pipeline, and the argument it is passed as.

    A manifest is right when every value is a parameter of the pipeline's `__call__`, and no two
    keys share one.
    """
    named = {**ARGUMENTS, **spec.options.get("call", {})}
    asked = {key: p for key, p in spec.config.items() if not (p.load or p.engine)}
    keys = [*spec.inputs, *asked]
    arguments = {key: named.get(key, None if key in HERE else key) for key in keys}
    return {key: argument for key, argument in arguments.items() if argument is not None}
