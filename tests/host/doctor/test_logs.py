"""Known error texts in logs: what they mean, and which came first."""

from __future__ import annotations

import io

import pytest

from jumar.host.doctor import Finding, arrange, classify
from jumar.host.doctor.logs import PIECE, log_rules

OOM = (
    "RuntimeError: NPU out of memory. Tried to allocate 20.00 MiB (NPU 6; 60.97 GiB total "
    "capacity; {own} already allocated; 10.24 GiB current active; 19.79 MiB free; 0 bytes)"
)

LINES: dict[str, list[str]] = {
    "log-card-held": [
        "dcmi model initialized failed, because the device is used. ret is -8020",
        "davinci[davinci0] already in use",
        "EL0005: The resources are busy.",
    ],
    "log-devices-or-mounts": [
        "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)",
        "dcmi module initialize failed. ret is -8005",
        'error gathering device information while adding custom device "/dev/devmm_svm"',
    ],
    "log-container-id": ["[ERROR] DRV: Container ID verify failed, devid=3"],
    "log-nodes-missing": [
        "Get physical device number failed, err: 87",
        "[drv][drvGetDevNum] failed, ret=87",
        "UserWarning: Can't get ascend_hal device count",
    ],
    "log-mount-source": [
        "ascend-docker-hook: prestart hook: failed to mount src: /usr/local/bin/npu-smi"
    ],
    "log-no-usable-device": ["get device count failed, runtime result = 507899"],
    "log-ub-libraries": ["create jetty failed: urma_attr is NULL"],
    "log-tsd-open": ["[TsdOpen] tdt error"],
    "log-glibc-private": ["symbol lookup error: libc.so.6: undefined symbol, GLIBC_PRIVATE"],
    "log-driver-libraries": [
        "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory",
        "npu-smi: error while loading shared libraries: libc_sec.so: cannot open shared object",
    ],
    "log-cann-environment": [
        "ImportError: libhccl.so: cannot open shared object file: No such file or directory",
        "ModuleNotFoundError: No module named 'tbe.common'",
        "Exception: ASCEND_OPP_PATH environment variable is not set.",
    ],
    "log-atb": [
        "OSError: libatb.so: cannot open shared object file",
        "undefined symbol: _ZN3Mki2Dl5CloseEv",
        "libtorch_npu.so: undefined symbol: GroupTopkParam",
    ],
    "log-transport-library": ["OSError: ascend_transport.so: cannot open shared object file"],
    "log-undefined-symbol": [
        "libop_plugin_atb.so: undefined symbol: aclnnFoo",
        "undefined symbol: MsprofSysCycleTime",
        "module 'torch_npu' has no attribute '_npu_flash_attention'",
    ],
    "log-source-tree": ["ModuleNotFoundError: No module named 'torch_npu._C'"],
    "log-backend-extension": ["RuntimeError: Failed to load the backend extension: torch_npu."],
    "log-device-type": ["RuntimeError: Failed to infer device type"],
    "log-two-accelerators": [
        "Two accelerators cannot be used at the same time in PyTorch: npu and npu"
    ],
    "log-init-500001": [
        "SetPrecisionMode:ACL_PRECISION_MODE, error code is 500001",
        "EH9999: Inner Error! init env failed, 500001",
    ],
    "log-opp-driver": [
        "E30006: Failed to verify the OPP",
        "tsd client wait response fail",
        "call aclrtSetDevice failed, error code is 507033",
    ],
    "log-kernels-other-chip": [
        "EZ1001: check opp_kernel package",
        "socversion Ascend910B1 of bin package does not match device type Ascend310P3",
        "Unsupported soc_version: UNDEFINED",
    ],
    "log-triton-310p": ["Cannot find option named 'Ascend310P3'!"],
    "log-triton-drivers": ["RuntimeError: 0 active drivers ([]). There should only be one."],
    "log-dtype": [
        "aclnnRepeatInterleaveIntWithDim: DT_DOUBLE is not in the list",
        "aclnnExpm1 failed, error code is 161002",
        "tensor self not implemented for DT_COMPLEX64",
    ],
    "log-compile-op": ["Compile op[trans_Cast_2,] failed, oppath[...]"],
    "log-graph-mode": ["RuntimeError: graph mode init failed"],
    "log-cpu-fallback": [
        "CAUTION: The operator 'aten::unique2' will fall back to run on the CPU.",
    ],
    "log-operator-library": [
        "coreDim is invalid (value 0)",
        "UnsupportedLanguageConstruct: chained boolean operators",
        "MLIRCompilationError: strides must not be zero",
    ],
    "log-device-exception": [
        "rtStreamSynchronize execute failed, error code is 507035",
        "[Error]: ret = 507015",
    ],
    "log-wrong-id": [
        "set ASCEND_RT_VISIBLE_DEVICES:4 error, input data rang[0-2)",
        "open device 4 failed, runtime result = 107001.",
        "AssertionError: Invalid device id",
    ],
    "log-fork": ["Cannot re-initialize NPU in forked subprocess. Use 'spawn'"],
    "log-hccl-user": [
        "HcclGetRootInfo(&hcclID), error code is 19",
        "ra init failed, return[19]",
    ],
    "log-hccl-port": [
        "EJ0003: Failed to bind the IP port. Reason: The IP address and port[60000]",
        "EI0019: Cannot bind IF",
        "HcclGetRootInfo(&hcclID), error code is 11",
    ],
    "log-hccl-link": ["EJ0002: The network port is down."],
    "log-hccl-process": ["EJ0001: Failed to initialize the HCCP process."],
    "log-hccl-topology": ["EI0014: cannot open atlas_350_3.json"],
    "log-hccl-socket": ["EI0006: Getting socket times out."],
    "log-hccl-notify": ["EI0002: The wait execution of the Notify register times out (timeout)"],
    "log-oom-other": [OOM.format(own="10.24 GiB"), OOM.format(own="512.00 MiB")],
    "log-oom": [OOM.format(own="58.10 GiB"), "ValueError: Free memory on device (8.0/64.0 GiB)"],
    "log-visible-count": ["local_world_size (8) must be <= visible devices (0)"],
    "log-broadcast-block": ["No available shared memory broadcast block found in 60 seconds."],
    "log-shm": ["OSError: /dev/shm/psm_1: No space left on device"],
    "log-driver-incomplete": ["[WARNING]The driver package may not be completely installed."],
    "log-tls": ["libgomp.so.1: cannot allocate memory in static TLS block"],
    "log-work-path": ["Path [/usr/bin] for [ge.debugDir] is invalid"],
    "log-file-mode": ["Check config.json: Required permission 750, got 644"],
    "log-cuda-expected": ["AssertionError: Torch not compiled with CUDA enabled"],
    "log-tokenizer": ["Tokenizer class TokenizersBackend does not exist"],
    "log-hub": [
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files",
    ],
    "log-disk": ["OSError: [Errno 28] No space left on device", "[Errno 122] Disk quota exceeded"],
    "log-nan": ["RuntimeWarning: invalid value encountered in cast"],
    "log-internal-format": ["[W] Warning: as_strided is used on a tensor of format 29"],
    "log-stale-handle": ["OSError: [Errno 116] Stale file handle: '/mnt/models/x.safetensors'"],
    "log-pooling-310p": ["310P does not support runner_type='pooling'"],
    "log-unsatisfiable": ["torch-npu 2.9.0 depends on torch==2.9.0+cpu"],
    "log-killed": ["command terminated with exit code 137"],
    "log-engine-dead": ["EngineCore encountered an issue. See stack trace above"],
}
HARMLESS = """\
2026-01-02 10:70:01.507035 INFO worker pid 107001 listens on port 50001
loss 0.507899 step 161002 tokens 207004 bytes 1500001 result ok
GET /v1/items/87 200 OK, 507 ms; address already in use check passed
err_count=0 latency 507033us version 9.507015.1
"""


def classified(text: str) -> list[Finding]:
    return list(arrange(classify(io.BytesIO(text.encode()))))


def flat(found: list[Finding]) -> list[str]:
    return [one.id for root in found for one in root.walk()]


def test_every_text_rule_has_a_line_that_shows_it() -> None:
    assert set(LINES) == {rule.id for rule in log_rules()}


@pytest.mark.parametrize("rule", sorted(LINES))
def test_each_rule_finds_its_lines(rule: str) -> None:
    for line in LINES[rule]:
        assert rule in flat(classified(f"INFO start\n{line}\nINFO end\n")), line


def test_numbers_that_are_no_error_codes_are_left_alone() -> None:
    assert flat(classified(HARMLESS)) == []


def test_an_empty_log_has_no_findings() -> None:
    assert classified("") == []


def test_the_first_cause_stands_above_its_echoes() -> None:
    log = """\
INFO 02-26 engine starts
Process SpawnProcess-1:
Traceback (most recent call last):
ImportError: libhccl.so: cannot open shared object file: No such file or directory
RuntimeError: Failed to load the backend extension: torch_npu.
RuntimeError: Failed to infer device type
RuntimeError: EngineCore encountered an issue.
"""
    (root,) = classified(log)
    assert [one.id for one in root.walk()] == [
        "log-cann-environment",
        "log-backend-extension",
        "log-device-type",
        "log-engine-dead",
    ]
    assert root.seen[0]["line"] == 4


def test_an_echo_that_comes_first_in_the_file_is_still_an_echo() -> None:
    log = "No available shared memory broadcast block found in 60 seconds.\n" * 3
    log += "[rank3] error code is 507035, AIV exception\n"
    (root,) = classified(log)
    assert [one.id for one in root.walk()] == ["log-device-exception", "log-broadcast-block"]
    assert root.consequences[0].evidence("en")[0].startswith("line 1 (x3): ")


def test_an_echo_is_not_put_below_a_mere_warning() -> None:
    log = LINES["log-cpu-fallback"][0] + "\nEngineCore encountered an issue\n"
    log += "error code is 507033\n"
    found = {root.id: root for root in classified(log)}
    assert [one.id for one in found["log-opp-driver"].walk()][1:] == ["log-engine-dead"]
    assert found["log-cpu-fallback"].consequences == ()


def test_an_echo_alone_is_shown_for_what_it_is() -> None:
    (root,) = classified("EngineCore encountered an issue.\n")
    assert root.id == "log-engine-dead"
    assert "not the cause" in root.cause("en")


def test_who_owns_the_memory_is_told_from_the_numbers() -> None:
    (other,) = classified(OOM.format(own="10.24 GiB"))
    (own,) = classified(OOM.format(own="58.10 GiB"))
    assert (other.id, own.id) == ("log-oom-other", "log-oom")
    assert "NPU 6 has 60.97 GiB, this process had allocated only 10.24 GiB" in other.cause("en")


def test_fallbacks_are_counted_and_only_the_first_lines_kept() -> None:
    log = "".join(LINES["log-cpu-fallback"][0] + "\n" for _ in range(500))
    (found,) = classified(log)
    assert len(found.seen) == 3
    assert found.evidence("en")[0].startswith("line 1 (x500): CAUTION")
    assert found.severity == "warning"


def test_line_numbers_are_right_across_pieces_and_at_both_ends() -> None:
    filler = "x" * 999 + "\n"
    before = PIECE // 1000 + 7
    text = LINES["log-fork"][0]
    (found,) = classified(filler * before + text + "\n" + filler * before + text)
    assert [values["line"] for values in found.seen] == [before + 1, 2 * before + 2]


def test_a_line_longer_than_a_piece_does_not_hide_what_stands_in_it() -> None:
    log = "a" * (3 * PIECE) + " Failed to infer device type " + "b" * PIECE + "\nlast\n"
    (found,) = classified(log)
    assert found.id == "log-device-type"
    assert len(str(found.seen[0]["text"])) <= 240


def test_colours_and_broken_bytes_do_no_harm() -> None:
    stream = io.BytesIO(b"\xff\xfe\x1b[31mFailed to infer device type\x1b[0m \xc3\x28\n")
    (found,) = arrange(classify(stream))
    assert "\x1b" not in str(found.seen[0]["text"])


def test_every_log_row_speaks_of_its_line_in_both_languages() -> None:
    (found,) = classified("Failed to infer device type\n")
    assert found.evidence("en") == ["line 1: Failed to infer device type"]
    assert found.evidence("zh") == ["第 1 行：Failed to infer device type"]
