"""What Jumar changes in vLLM: each change fits, is proven, and is made once, or nothing starts."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

from jumar.contracts.errors import DependencyMissing
from jumar.vllm import patches
from jumar.vllm.patches.base import Patch, load

needs_vllm = pytest.mark.skipif(not find_spec("vllm"), reason="vLLM is not installed")

ROW = Patch(
    name="greeting",
    target="foreign:Greeter.greet",
    replacement="ours:greet",
    proof="ours:it_is_polite",
    why="It is rude.",
    how="It says hello.",
    until="It learns manners.",
    parameters=("self", "name"),
)


class Greeter:
    def greet(self, name):
        return f"Oi, {name}!"


def greet(self, name):
    return f"Hello, {name}."


def it_is_polite() -> None:
    said = load("foreign:Greeter")().greet("Ada")
    assert said == "Hello, Ada.", said


@pytest.fixture
def foreign(monkeypatch):
    """A module of other people, one of ours, and a process that applied nothing yet."""
    modules = {name: ModuleType(name) for name in ("foreign", "ours")}
    modules["foreign"].Greeter = type("Greeter", (), dict(vars(Greeter)))
    modules["ours"].greet, modules["ours"].it_is_polite = greet, it_is_polite
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(patches, "PATCHES", (ROW,))
    monkeypatch.setattr(patches, "_applied", [])
    monkeypatch.setattr(patches, "_vllm", lambda: "0.24.0")
    return modules["foreign"]


def test_a_patch_is_applied_and_does_its_work(foreign):
    assert foreign.Greeter().greet("Ada") == "Oi, Ada!", "the control"
    patches.apply("npu", "worker")
    assert foreign.Greeter().greet("Ada") == "Hello, Ada."
    assert patches.applied() == (ROW,)


def test_a_patch_is_applied_once(foreign):
    patches.apply("npu", "worker")
    foreign.Greeter.greet = greet_again = lambda self, name: "Somebody else's."
    patches.apply("npu", "worker")
    assert foreign.Greeter.greet is greet_again, "a second call changes nothing"


@pytest.mark.parametrize(
    ("moved", "because"),
    [
        (lambda module: delattr(module.Greeter, "greet"), "is gone"),
        (lambda module: delattr(module, "Greeter"), "is gone"),
        (lambda module: sys.modules.pop("foreign"), "is gone"),
        (lambda module: setattr(module.Greeter, "greet", lambda self, name, tone: ""), "tone"),
    ],
)
def test_a_target_that_moved_is_an_error_that_names_it(foreign, moved, because):
    moved(foreign)
    with pytest.raises(DependencyMissing, match=f"greeting does not fit .*{because}"):
        patches.apply("npu", "worker")
    (row,) = patches.examine("npu")
    assert because in row.state and patches.applied() == ()


def test_a_patch_that_does_not_do_its_work_is_an_error(foreign, monkeypatch):
    sys.modules["ours"].greet = lambda self, name: f"Hey, {name}!"
    with pytest.raises(DependencyMissing, match="does not do its work: Hey, Ada!"):
        patches.apply("npu", "worker")
    assert patches.applied() == ()


@pytest.mark.parametrize(
    ("row", "where"),
    [
        (replace(ROW, versions="<0.24"), "worker"),
        (replace(ROW, devices=("cpu",)), "worker"),
        (ROW, "process"),
    ],
)
def test_what_does_not_concern_this_process_is_not_applied(foreign, monkeypatch, row, where):
    monkeypatch.setattr(patches, "PATCHES", (row,))
    patches.apply("npu", where)
    assert patches.applied() == () and foreign.Greeter().greet("Ada") == "Oi, Ada!"


def test_every_row_says_why_how_and_until_when():
    for patch in patches.PATCHES:
        for text in (patch.why, patch.how, patch.until):
            assert text.endswith(".") and len(text) > 20, patch.name
    names = [patch.name for patch in patches.PATCHES]
    assert len(set(names)) == len(names)


@needs_vllm
@pytest.mark.parametrize("row", [row.name for row in patches.PATCHES])
def test_every_row_fits_the_vllm_that_is_installed(row):
    (found,) = [one for one in patches.examine(None) if one.patch.name == row]
    assert found.state in ("fits", "not needed")


@needs_vllm
def test_without_its_patch_a_vision_model_cannot_be_profiled(tiny, monkeypatch):
    """What a profile run of 0.24 does, with the cache that it has."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.multimodal import MULTIMODAL_REGISTRY as REGISTRY
    from vllm.multimodal.processing.dummy_inputs import BaseDummyInputsBuilder

    from jumar.vllm.patches.replacements import get_dummy_processor_inputs

    (row,) = [one for one in patches.examine(None) if one.patch.name == "profiled-prompt"]
    if not row.concerned:
        pytest.skip("this vLLM asks in tokens itself")
    config = EngineArgs(model=str(tiny("qwen2_vl")), max_model_len=256).create_engine_config()

    def profiled():
        cache = REGISTRY.processor_only_cache_from_config(config)
        return REGISTRY.get_dummy_mm_inputs(config.model_config, {"video": 1}, cache=cache)

    name = "get_dummy_processor_inputs"
    with monkeypatch.context() as undone:
        undone.setattr(BaseDummyInputsBuilder, name, unpatched(BaseDummyInputsBuilder, name))
        with pytest.raises(ValueError, match="Qwen2VLProcessor"):
            profiled()
    monkeypatch.setattr(BaseDummyInputsBuilder, name, get_dummy_processor_inputs)
    assert profiled()["mm_kwargs"]["video"]


def unpatched(owner, name):
    """vLLM's own, whatever was applied to this process before."""
    import importlib.util

    module = sys.modules[owner.__module__]
    spec = importlib.util.spec_from_file_location(module.__name__, module.__file__)
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    return getattr(getattr(fresh, owner.__name__), name)


@needs_vllm
def test_without_its_patch_who_waits_for_an_engine_that_is_stopped_waits_for_ever():
    import asyncio

    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.engine.exceptions import EngineDeadError

    from jumar.vllm.patches.replacements import shutdown

    async def waited(stop):
        """What a request gets that waits for tokens while the engine is stopped as a server does,
        from another thread."""
        queue = asyncio.Queue()
        engine = SimpleNamespace(
            engine_core=SimpleNamespace(shutdown=lambda timeout: None),
            output_handler=asyncio.create_task(asyncio.sleep(600)),
            output_processor=SimpleNamespace(propagate_error=queue.put_nowait),
        )
        await asyncio.to_thread(stop, engine, timeout=0)
        return await asyncio.wait_for(queue.get(), 1)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(waited(unpatched(AsyncLLM, "shutdown")))
    told = asyncio.run(waited(shutdown))
    assert isinstance(told, EngineDeadError) and str(told) == "The server is stopping."


@needs_vllm
def test_the_proof_of_the_slots_tells_a_mapping_that_is_off_by_one(monkeypatch):
    from vllm.v1.worker.block_table import BlockTable

    from jumar.vllm.patches import proofs, replacements

    monkeypatch.setattr(BlockTable, "compute_slot_mapping", replacements.compute_slot_mapping)
    proofs.slots_are_those_of_the_blocks()

    def off_by_one(self, num_reqs, query_start_loc, positions):
        replacements.compute_slot_mapping(self, num_reqs, query_start_loc, positions)
        self.slot_mapping.gpu[0] += 1

    monkeypatch.setattr(BlockTable, "compute_slot_mapping", off_by_one)
    with pytest.raises(AssertionError, match="slots"):
        proofs.slots_are_those_of_the_blocks()
