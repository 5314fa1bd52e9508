"""When vLLM runs on Jumar's platform, and when it is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jumar.contracts.errors import DeviceUnavailable, InvalidValue
from jumar.vllm import PLATFORMS, REFUSED, activation, platform_plugin
from jumar.vllm.activation import Machine, decide

NPU = Machine(lambda: None, lambda: "npu", lambda: False, list)
BARE = replace(NPU, without_npu=lambda: "torch_npu is not installed")
BROKEN = replace(NPU, without_npu=lambda: "torch_npu does not load: OSError: libhccl.so")
NVIDIA = replace(BARE, has_nvidia=lambda: True)
BOTH = replace(NPU, has_nvidia=lambda: True)
TAKEN = replace(NPU, other_platforms=lambda: ["'ascend' of vllm-ascend"])


@pytest.mark.parametrize(
    ("machine", "asked", "device", "because"),
    [
        (NPU, None, "npu", "There is an NPU (npu)"),
        (NPU, "npu", "npu", "JUMAR_VLLM_DEVICE=npu"),
        (NPU, "cpu", "cpu", "JUMAR_VLLM_DEVICE=cpu"),
        (BARE, None, None, "torch_npu is not installed"),
        (BARE, "cpu", "cpu", "JUMAR_VLLM_DEVICE=cpu"),
        (BROKEN, None, None, "libhccl.so"),
        (NVIDIA, None, None, "torch_npu is not installed"),
        (NVIDIA, "cpu", "cpu", "JUMAR_VLLM_DEVICE=cpu"),
        (BOTH, None, None, "NVIDIA"),
        (BOTH, "npu", "npu", "JUMAR_VLLM_DEVICE=npu"),
        (TAKEN, None, None, "'ascend' of vllm-ascend"),
    ],
)
def test_active_where_there_is_an_npu_alone_or_somebody_says_so(machine, asked, device, because):
    environ = {} if asked is None else {"JUMAR_VLLM_DEVICE": asked}
    decided = decide(environ, machine)
    assert decided.device == device and because in decided.reason and decided.error is None


@pytest.mark.parametrize(
    ("machine", "asked", "error", "because"),
    [
        (NPU, "npux", InvalidValue, "'npu'"),
        (NPU, "npu:1", InvalidValue, "ASCEND_RT_VISIBLE_DEVICES"),
        (NVIDIA, "cuda", InvalidValue, "cuda is not valid"),
        (BARE, "npu", DeviceUnavailable, "torch_npu is not installed"),
        (TAKEN, "npu", InvalidValue, "VLLM_PLUGINS=jumar"),
        (TAKEN, "cpu", InvalidValue, "VLLM_PLUGINS=jumar"),
    ],
)
def test_what_was_asked_for_and_cannot_be_is_an_error(machine, asked, error, because):
    decided = decide({"JUMAR_VLLM_DEVICE": asked}, machine)
    assert decided.device is None and because in decided.reason
    assert isinstance(decided.error, error)


def test_no_other_platform_is_asked_where_nothing_depends_on_it():
    """Asking one runs its code: on a machine without an NPU nobody's is run."""

    def never() -> list[str]:
        raise AssertionError

    assert decide({}, replace(BARE, other_platforms=never)).device is None


def test_vllms_own_list_of_plugins_is_the_reason_where_it_leaves_jumar_out():
    assert "VLLM_PLUGINS=lora" in decide({"VLLM_PLUGINS": "lora"}, NPU).reason
    assert decide({"VLLM_PLUGINS": "lora,jumar"}, NPU).device == "npu"


@pytest.fixture
def asked(monkeypatch):
    """Decide anew, for what the environment says."""

    def ask(**environ: str | None) -> None:
        for name in ("JUMAR_VLLM_DEVICE", "VLLM_PLUGINS"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        activation.current.cache_clear()

    yield ask
    activation.current.cache_clear()


def test_the_plugin_names_a_class_or_nothing(asked):
    asked(JUMAR_VLLM_DEVICE="cpu")
    assert platform_plugin() == PLATFORMS["cpu"]
    asked(VLLM_PLUGINS="")
    assert platform_plugin() is None


def test_a_bad_value_gets_a_platform_that_raises_when_it_is_made(asked):
    """vLLM passes over a plugin that raises, and runs the built-in platform without a word."""
    from importlib import import_module

    asked(JUMAR_VLLM_DEVICE="gpu")
    path = platform_plugin()
    assert path == REFUSED
    module, _, name = path.rpartition(".")
    with pytest.raises(InvalidValue, match="JUMAR_VLLM_DEVICE=gpu"):
        getattr(import_module(module), name)()


def test_detection_that_fails_is_a_reason_and_never_an_exception(asked, monkeypatch):
    def breaks() -> Machine:
        raise OSError("libascendcl.so: cannot open shared object file")

    monkeypatch.setattr(activation, "this_machine", breaks)
    asked()
    assert platform_plugin() is None
    assert "OSError: libascendcl.so" in activation.current().reason
    asked(JUMAR_VLLM_DEVICE="npu")
    assert platform_plugin() == REFUSED
    assert "libascendcl.so" in str(activation.current().error.cause)


def test_why_it_is_active_or_not_is_one_line_of_the_log(asked, monkeypatch, caplog):
    import jumar.vllm

    asked(JUMAR_VLLM_DEVICE="cpu")
    monkeypatch.setattr(jumar.vllm, "_told", False)
    with caplog.at_level("INFO", "vllm.jumar"):
        platform_plugin()
        platform_plugin()  # vLLM asks twice
    assert [record.getMessage() for record in caplog.records] == [
        "Jumar's platform is active on cpu: JUMAR_VLLM_DEVICE=cpu says so."
    ]


@pytest.mark.parametrize(
    ("argv", "own"),
    [
        (["/usr/bin/vllm", "serve", "m"], True),
        (["/lib/vllm/entrypoints/cli/main.py", "serve", "m"], True),
        (["notebook.py"], False),
        (["/home/me/main.py"], False),
        ([], False),
    ],
)
def test_only_what_vllm_alone_has_started_is_kept_from_collections(argv, own, monkeypatch):
    """A user's program may hold garbage in cycles, tensors too, that has to go some day."""
    import gc

    import jumar.vllm as plugin

    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr("sys.argv", argv)
    monkeypatch.setattr("multiprocessing.parent_process", lambda: None)
    monkeypatch.setenv("JUMAR_VLLM_DEVICE", "cpu")
    plugin.current.cache_clear()
    try:
        assert plugin.platform_plugin() == plugin.PLATFORMS["cpu"]
        assert frozen == [True] * own
    finally:
        plugin.current.cache_clear()
