"""What choosing an implementation costs per call: held by the layer, and looked up as peers do.

    python -m benchmarks binding

The operator itself does nothing, so that only the way to it is seen. The two peers are stand-ins
written after the published structure of vllm-plugin-FL's dispatcher (a call site's cache checked by
epochs; a manager that walks candidates), since the plugin needs vLLM to be imported. CPU time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from jumar.operators.binding import Bindings
from jumar.operators.providers import Implementation

CALLS, ROUNDS = 50_000, 9


def silu_and_mul(x: Any) -> Any:
    """The operator: nothing."""
    return x


class Nothing:
    """A provider of it."""

    name = "nothing"

    def version(self) -> str | None:
        return None

    def unavailable(self) -> str | None:
        return None

    def layers(self) -> Mapping[str, Implementation]:
        return {"silu_and_mul": Implementation(lambda: silu_and_mul)}

    def functions(self) -> Mapping[str, Implementation]:
        return {}


# ---- stand-ins of the peers ----------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """A selection policy: part of every cache key."""

    prefer: str = "flagos"
    strict: bool = False
    orders: tuple[tuple[str, tuple[str, ...]], ...] = ()
    denied: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None

    def __hash__(self) -> int:
        return hash((self.prefer, self.strict, self.orders, self.denied, self.allowed))


@dataclass(frozen=True)
class Candidate:
    """One implementation in the registry."""

    name: str
    function: Callable[..., Any]


class PolicyState:
    """The policy of the context, else of the process, with an epoch."""

    def __init__(self) -> None:
        self.epoch = 0
        self.everywhere = Rules()
        self.here: ContextVar[Rules | None] = ContextVar("rules", default=None)

    def get_epoch(self) -> int:
        return self.epoch

    def get(self) -> Rules:
        found = self.here.get()
        return self.everywhere if found is None else found


_policy = PolicyState()


def policy_state() -> PolicyState:
    return _policy


def dumping() -> bool:
    return False


@dataclass
class State:
    """A manager's state."""

    pid: int = -1
    ready: bool = False
    epoch: int = 0


@dataclass
class Manager:
    """Walks the candidates at every call, and goes on to the next where one raises."""

    lock: Any = field(default_factory=threading.RLock)
    recording: Any = field(default_factory=threading.Lock)
    state: State = field(default_factory=State)
    cache: dict[Any, list[Candidate]] = field(default_factory=dict)
    failed: dict[str, set[str]] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)
    recorded: set[tuple[str, str]] = field(default_factory=set)

    @property
    def epoch(self) -> int:
        return self.state.epoch

    def ensure(self) -> None:
        with self.lock:
            pid = os.getpid()
            if self.state.ready and self.state.pid == pid:
                return
            self.state.ready, self.state.pid = True, pid
            self.state.epoch += 1

    def candidates(self, name: str) -> list[Candidate]:
        self.ensure()
        key = (name, policy_state().get(), self.state.epoch)
        found = self.cache.get(key)
        if found is None:
            found = self.cache[key] = [Candidate("default.flagos", silu_and_mul)]
        return found

    def note(self, name: str, chosen: Candidate) -> None:
        if self.used.get(name) != chosen.name:
            self.used[name] = chosen.name

    def hooked(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs) if not dumping() else None

    def record(self, name: str, chosen: Candidate) -> None:
        with self.recording:
            self.recorded.add((name, chosen.name))

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        falls_back = not policy_state().get().strict
        candidates = self.candidates(name)
        failed = self.failed.get(name, set())
        left = [one for one in candidates if one.name not in failed]
        for index, chosen in enumerate(left):
            try:
                if index == 0:
                    self.note(name, chosen)
                result = self.hooked(chosen.function, args, kwargs)
                self.record(name, chosen)
                return result
            except Exception:
                if not falls_back:
                    raise
                self.failed.setdefault(name, set()).add(chosen.name)
        raise RuntimeError("no implementation left")


_manager = Manager()


def manager() -> Manager:
    return _manager


class CachedOp:
    """Holds an implementation at the call site, as long as no epoch has moved."""

    __slots__ = ("chosen", "epoch", "name", "owner", "policy_epoch")

    def __init__(self, name: str) -> None:
        self.name, self.chosen = name, None
        self.owner = self.epoch = self.policy_epoch = -1

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mine = manager()
        if dumping():
            return mine.call(self.name, *args, **kwargs)
        epoch, owner, policy_epoch = mine.epoch, id(mine), policy_state().get_epoch()
        moved = self.owner != owner or self.epoch != epoch or self.policy_epoch != policy_epoch
        chosen: Any = None if moved else self.chosen
        if chosen is None:
            chosen = self.chosen = mine.candidates(self.name)[0]
            self.owner, self.epoch = owner, mine.epoch
            self.policy_epoch = policy_epoch
        try:
            return chosen.function(*args, **kwargs)
        except Exception:  # noqa: BLE001 - that is what it does
            self.chosen = None
            return mine.call(self.name, *args, **kwargs)


# ---- the table -----------------------------------------------------------------------------------


def main() -> None:
    """Print nanoseconds per call: the best of several rounds, in turn."""
    bindings = Bindings({"silu_and_mul": "nothing"}, "cpu", find=lambda _: Nothing())
    ways = {
        "plain function": silu_and_mul,
        "bound by jumar": bindings.bind("silu_and_mul", "float32"),
        "cached at the call site (stand-in)": CachedOp("silu_and_mul"),
        "manager's call (stand-in)": lambda x: manager().call("silu_and_mul", x),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, call in ways.items():
            best[name] = min(best[name], _nanoseconds(call))
    plain = best["plain function"]
    print(f"\n{'(CPU time, ns per call)':<44}{'call':>10}{'added':>10}")
    for name, took in best.items():
        print(f"{name:<44}{took:>10.0f}{took - plain:>10.0f}")
    same = ways["bound by jumar"] is silu_and_mul
    print(f"the bound function is the provider's own object: {'yes' if same else 'NO'}")


def _nanoseconds(call: Callable[..., Any]) -> float:
    begun = time.process_time_ns()
    for _ in range(CALLS):
        call(None)
    return (time.process_time_ns() - begun) / CALLS
