"""A module is bound to the highest rung that answers its first input as the eager module does."""

from __future__ import annotations

import gc
import inspect
import logging
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jumar.contracts.errors import Cancelled
from jumar.devices import graphs, prepacking
from jumar.devices.graphs import Function, Graph, inside, torch_compile
from jumar.runtime.ladder import BackendRuntime, Rules


def doubled(function: Function) -> Function:
    """A graph that works; it marks what it made, and counts."""

    def graph(*args: Any, **kwargs: Any) -> Any:
        graph.calls += 1  # type: ignore[attr-defined]
        return function(*args, **kwargs)

    graph.calls = 0  # type: ignore[attr-defined]
    doubled.made.append(graph)  # type: ignore[attr-defined]
    return graph


doubled.made = []  # type: ignore[attr-defined]
GOOD = Graph("good", doubled)


def failing(text: str, at: str = "call") -> Graph:
    def make(function: Function) -> Function:
        def graph(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(text)

        if at == "make":
            raise RuntimeError(text)
        return graph

    return Graph("failing", make)


WRONG = Graph("wrong", lambda function: lambda *args, **kwargs: function(*args, **kwargs) * 1.01)
NAN = Graph("nan", lambda function: lambda *args, **kwargs: function(*args, **kwargs) / 0 * 0)


def linear(*graphs: Graph, **options: Any) -> tuple[nn.Module, BackendRuntime]:
    torch.manual_seed(0)
    runtime = BackendRuntime(graphs=graphs, **{"compile": "on", **options})
    return runtime.wrap_module(nn.Linear(4, 3).eval(), "head"), runtime


def told(runtime: BackendRuntime) -> list[tuple[str, bool, str | None, bool]]:
    (entry,) = runtime.timeline()
    return [(a.level, a.ok, a.reason, a.selected) for a in entry.attempts]


X = torch.linspace(-1, 1, 8).reshape(2, 4)


@torch.inference_mode()
def test_a_graph_that_agrees_is_taken_and_used_from_then_on() -> None:
    module, runtime = linear(GOOD)
    first, again = module(X), module(X)
    assert torch.equal(first, again)
    assert told(runtime) == [
        ("kernel_override", False, "no override registered", False),
        ("compile", True, "good", True),
    ]
    assert doubled.made[-1].calls == 3  # type: ignore[attr-defined]  # the trial, and both calls


@pytest.mark.parametrize("at", ["make", "call"])
@torch.inference_mode()
def test_a_graph_that_fails_falls_back_to_eager_and_names_the_operator(at: str) -> None:
    text = "graph mode init failed\n  node 7: aten::grid_sampler_2d is not supported"
    module, runtime = linear(failing(text, at))
    wanted = nn.functional.linear(X, module.weight, module.bias)
    assert torch.equal(module(X), wanted)
    assert told(runtime)[1] == (
        "compile",
        False,
        "failing: RuntimeError: graph mode init failed (aten::grid_sampler_2d)",
        False,
    )
    assert told(runtime)[-1] == ("eager", True, None, True)


@pytest.mark.parametrize(("graph", "reason"), [(WRONG, "differs from eager"), (NAN, "NaN")])
@torch.inference_mode()
def test_a_graph_that_answers_wrongly_is_not_taken(graph: Graph, reason: str) -> None:
    module, runtime = linear(graph)
    wanted = nn.functional.linear(X, module.weight, module.bias)
    assert torch.equal(module(X), wanted)
    assert reason in str(told(runtime)[1])
    # The control: without the comparison the wrong answer would have passed.
    blind, _ = linear(graph, compare=lambda wanted, got: None)
    assert not torch.equal(blind(X), wanted)


@torch.inference_mode()
def test_graphs_are_tried_in_order_until_one_holds() -> None:
    module, runtime = linear(failing("no"), WRONG, GOOD)
    module(X)
    assert [(ok, selected) for _, ok, _, selected in told(runtime)[1:]] == [
        (False, False),
        (False, False),
        (True, True),
    ]


@torch.inference_mode()
def test_an_override_is_the_rung_below_the_graph() -> None:
    better: Callable[..., Tensor] = lambda x: torch.addmm(module.bias, x, module.weight.T)  # noqa: E731
    module, runtime = linear(failing("no"), override=lambda module, tag: better)
    module(X)
    assert told(runtime)[-1] == ("kernel_override", True, "override", True)


@pytest.mark.parametrize(
    ("compile_", "unasked", "reason"),
    [
        ("off", True, "not tried: compile is off"),
        ("auto", False, "not tried: on this device only with compile: on"),
    ],
)
@torch.inference_mode()
def test_where_no_graph_is_wanted_none_is_made(compile_: str, unasked: bool, reason: str) -> None:
    module, runtime = linear(failing("never called"), compile=compile_, unasked=unasked)
    module(X)
    assert told(runtime)[0] == ("compile", False, reason, False)
    assert told(runtime)[-1] == ("eager", True, None, True)


@torch.inference_mode()
def test_a_graph_that_takes_too_long_is_not_taken() -> None:
    def slow(function: Function) -> Function:
        def graph(*args: Any) -> Any:
            time.sleep(0.05)
            return function(*args)

        return graph

    module, runtime = linear(Graph("slow", slow), rules=Rules(seconds=0.01))
    module(X)
    assert "over the limit" in str(told(runtime)[1])


@torch.inference_mode()
def test_each_shape_class_climbs_once_and_not_without_end() -> None:
    module, runtime = linear(GOOD, rules=Rules(shape_classes=2))
    made = len(doubled.made)  # type: ignore[attr-defined]
    for rows in (1, 2, 1, 2, 3, 4, 5):
        module(torch.ones(rows, 4))
    assert len(doubled.made) - made == 2  # type: ignore[attr-defined]
    assert ("compile", False, "not tried: more than 2 shape classes", False) in told(runtime)
    assert told(runtime).count(("compile", True, "good", True)) == 1


class Cache:
    """As a key-value cache: the module writes into it."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []


class Remembers(nn.Module):
    def forward(self, x: Tensor, cache: Cache) -> Tensor:
        cache.seen.append(x)
        return torch.stack(cache.seen).sum(0)


@pytest.mark.parametrize("graph", [GOOD, failing("no"), WRONG])
def test_trying_leaves_no_trace_in_what_the_module_writes_to(graph: Graph) -> None:
    eager = Remembers()
    runtime = BackendRuntime(compile="on", override=lambda module, tag: graph.make(eager.forward))
    module = runtime.wrap_module(Remembers(), "block")
    cache = Cache()
    assert torch.equal(module(X, cache), X)
    assert torch.equal(module(X, cache), 2 * X)
    assert len(cache.seen) == 2


def test_no_graph_is_taken_of_a_module_whose_input_changes_from_call_to_call() -> None:
    """What agreed at one length says nothing of the next; a fault there would have no way back."""
    runtime = BackendRuntime(graphs=(GOOD,), compile="on")
    module = runtime.wrap_module(Remembers(), "decoder")
    assert torch.equal(module(X, Cache()), X)
    (entry,) = runtime.timeline()
    (tried,) = [attempt for attempt in entry.attempts if attempt.level == "compile"]
    assert tried.reason == "not tried: its input Cache changes from call to call"
    assert [a.level for a in entry.attempts if a.selected] == ["eager"]


def test_a_caller_who_stops_during_a_trial_is_heard() -> None:
    def stopped(function: Function) -> Function:
        raise Cancelled("Stopped by the caller.")

    module, _ = linear(Graph("stopped", stopped))
    with pytest.raises(Cancelled):
        module(X)


@torch.inference_mode()
def test_the_timeline_is_there_on_warm_runs_and_not_before_the_first_call() -> None:
    module, runtime = linear(GOOD)
    assert runtime.timeline() == []
    module(X)
    first = runtime.timeline()
    module(X)
    assert runtime.timeline() == first


@torch.inference_mode()
def test_a_module_past_its_shape_classes_keeps_the_graphs_it_has() -> None:
    module, _ = linear(GOOD, rules=Rules(shape_classes=1))
    module(torch.ones(1, 4))
    graph = doubled.made[-1]  # type: ignore[attr-defined]
    for rows in (2, 3, 1):
        module(torch.ones(rows, 4))
    assert graph.calls == 3


def test_libraries_still_see_the_signature_of_the_module() -> None:
    module, _ = linear(GOOD)
    assert list(inspect.signature(module.forward).parameters) == ["input"]


@torch.inference_mode()
def test_a_device_error_that_comes_late_belongs_to_its_attempt() -> None:
    def late() -> None:
        raise RuntimeError("EZ9999: inner error, aclnnSwiGlu failed")

    module, runtime = linear(GOOD, synchronize=late)
    module(X)
    assert "EZ9999" in str(told(runtime)[1])
    assert told(runtime)[-1][0] == "eager"


@torch.inference_mode()
def test_torch_compile_and_a_mode_are_graphs() -> None:
    entered = []

    class Mode:
        def __enter__(self) -> None:
            entered.append(1)

        def __exit__(self, *_: object) -> None: ...

    for graph in (torch_compile("aot", backend="aot_eager"), inside("mode", Mode)):
        module, runtime = linear(graph)
        module(X)
        assert told(runtime)[-1] == ("compile", True, graph.name, True)
    assert entered


@pytest.mark.parametrize("torch_isolates", [True, False])
@torch.inference_mode()
def test_modules_that_share_their_code_have_graphs_of_their_own_however_many_they_are(
    monkeypatch: pytest.MonkeyPatch, torch_isolates: bool
) -> None:
    """torch counts how often code is compiled, and runs it eagerly after eight times."""
    monkeypatch.setattr(graphs, "_isolates", lambda _: torch_isolates)
    made = []

    def backend(graph: Any, inputs: Any) -> Any:
        made.append(graph)
        return graph.forward

    for size in range(1, 11):
        runtime = BackendRuntime(graphs=[torch_compile("counting", backend=backend)], compile="on")
        runtime.wrap_module(nn.Linear(size, 2), "head")(torch.ones(1, size))
        assert told(runtime)[-1] == ("compile", True, "counting", True)
    assert len(made) == 10


@torch.inference_mode()
def test_what_a_compilers_backend_raised_is_told_not_the_wrapping() -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("compile failed\n  Unsupported torch op silu by ge")

    module, runtime = linear(torch_compile("ge", backend=backend))
    module(X)
    assert told(runtime)[1][2] == "ge: RuntimeError: compile failed (torch op silu)"


@torch.inference_mode()
def test_what_compilers_say_to_their_authors_is_not_heard(caplog: Any, recwarn: Any) -> None:
    def talks(function: Function) -> Function:
        warnings.warn("fusing less than I could", stacklevel=1)
        logging.getLogger("torch._dynamo.somewhere").warning("recompiled")
        return function

    module, _ = linear(Graph("talks", talks))
    module(X)
    assert not recwarn.list
    assert not caplog.records
    logging.getLogger("torch._dynamo.somewhere").warning("heard again")
    assert caplog.messages == ["heard again"]


@torch.inference_mode()
def test_a_runtime_that_is_closed_holds_no_module() -> None:
    module, runtime = linear(GOOD)
    module(X)
    held = weakref.ref(module)
    runtime.close()
    del module
    gc.collect()
    doubled.made.clear()  # type: ignore[attr-defined]
    gc.collect()
    assert held() is None


def prepacked(**options: Any) -> tuple[nn.Module, BackendRuntime]:
    runtime = BackendRuntime(**{"prepacks": True, **options})
    return runtime.wrap_module(nn.Linear(256, 512).eval(), "head"), runtime


@pytest.mark.skipif(not prepacking.available(), reason="no oneDNN here")
def test_weights_laid_out_anew_are_an_override_in_the_report():
    module, runtime = prepacked()
    module(torch.randn(2, 256))
    (entry,) = runtime.timeline()
    (taken,) = [one for one in entry.attempts if one.selected]
    assert taken.level == "kernel_override" and taken.ok
    assert taken.reason == "oneDNN multiplies in 1 linear layers"


@pytest.mark.skipif(not prepacking.available(), reason="no oneDNN here")
def test_a_layer_that_stays_with_torch_is_in_the_report(monkeypatch):
    monkeypatch.setattr(prepacking, "product", lambda given, *_: given.new_zeros(4, 512) + 9)
    module, runtime = prepacked()
    module(torch.randn(2, 256))
    (entry,) = runtime.timeline()
    assert [one.level for one in entry.attempts if one.selected] == ["eager"]
    assert "oneDNN's product is not torch's" in str(entry.attempts)
