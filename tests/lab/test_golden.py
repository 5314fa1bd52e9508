"""A golden set finds what is wrong with a model, and is never satisfied with nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jumar.contracts.errors import InvalidInput, InvalidRequest, ParityFailed, RunFailed
from jumar.lab.golden import (
    Facts,
    Golden,
    Key,
    Reference,
    Request,
    covered,
    read,
    record,
    sentence,
    usual_requests,
    verify,
    write,
)
from jumar.lab.golden.files import read_requests
from jumar.parity import Answer

CPU = Key("cpu", "fp32", "some CPU")
NPU = Key("npu", "bf16", "Ascend910B1")
WINDOW = 64

Reading = Callable[[list[np.ndarray]], list[np.ndarray]]


def tokens(text: str) -> np.ndarray:
    """[n, 8]: a vector per word, which depends on its place. Two of 256 are for special tokens."""
    words = text.split()[:254]
    rows = [np.random.default_rng(sum(map(ord, word))).normal(size=8) for word in words]
    return np.array([row * (1 + place / 64) for place, row in enumerate(rows)])


def right(texts: list[np.ndarray]) -> list[np.ndarray]:
    """The mean of each text's words."""
    return [text.mean(axis=0) for text in texts]


def ignores_padding(texts: list[np.ndarray]) -> list[np.ndarray]:
    """Divides by the longest text's length, as a kernel does that ignores the mask."""
    longest = max(map(len, texts))
    return [text.sum(axis=0) / longest for text in texts]


def ignores_the_window(texts: list[np.ndarray]) -> list[np.ndarray]:
    """Right up to WINDOW words, and blind beyond."""
    return [text[:WINDOW].mean(axis=0) for text in texts]


def swaps_neighbours(texts: list[np.ndarray]) -> list[np.ndarray]:
    """Gives the first two of a batch each other's answer."""
    found = right(texts)
    return [*reversed(found[:2]), *found[2:]]


def asker(reading: Reading, noise: float = 0.0) -> Callable[[Request], dict[str, Answer]]:
    """A model that reads texts in this way."""
    random = np.random.default_rng(7)

    def ask(request: Request) -> dict[str, Answer]:
        vectors = reading([tokens(text) for text in request.inputs["texts"]])
        return {
            f"vector.{n}": Answer("vector", vector * (1 + noise * random.uniform(-1, 1)))
            for n, vector in enumerate(vectors)
        }

    return ask


def golden() -> Golden:
    """The usual requests for vectors, of a model that reads 256 words."""
    return Golden("toy", "0" * 64, "embeddings", usual_requests("embeddings", Facts(256)))


def with_reference(key: Key = CPU) -> Golden:
    """The same, and what the right model says."""
    made = record(golden(), key, asker(right), made_on={"torch": "2.13.0"})
    return replace(golden(), references=(made,))


# ---- what is found -----------------------------------------------------------------------------


def test_the_model_that_was_recorded_matches() -> None:
    outcome = verify(with_reference(), CPU, asker(right), made_on={"torch": "2.13.0"})
    assert (outcome.status, outcome.findings, outcome.notes) == ("matched", (), ())
    assert outcome.checked == outcome.matched == 22


@pytest.mark.parametrize("broken", [ignores_padding, ignores_the_window, swaps_neighbours])
def test_each_fault_is_found_and_named(broken: Reading) -> None:
    outcome = verify(with_reference(), CPU, asker(broken), made_on={})
    assert outcome.status == "failed"
    assert outcome.matched < outcome.checked
    assert "over the limit of" in sentence(outcome.findings[0])


@pytest.mark.parametrize("broken", [ignores_padding, swaps_neighbours])
def test_company_that_changes_an_answer_is_found_without_any_reference(broken: Reading) -> None:
    outcome = verify(golden(), NPU, asker(broken), made_on={})
    assert outcome.status == "failed"
    assert {one.check for one in outcome.findings} == {"alike"}


def test_short_requests_alone_find_neither() -> None:
    """Why a set has to cover more: two short texts, as the peers ask, pass with a broken model."""
    whole = with_reference()
    short = tuple(one for one in whole.requests if one.name in ("short", "other"))
    asked = replace(golden(), requests=short)
    few = replace(asked, references=(record(asked, CPU, asker(right), made_on={}),))
    for broken in (ignores_padding, ignores_the_window):
        assert verify(few, CPU, asker(broken), made_on={}).status == "matched"
    assert covered(few) == ["short"]
    assert len(covered(whole)) == 9


def test_on_a_cpu_the_second_answer_has_the_same_bits() -> None:
    outcome = verify(with_reference(), CPU, asker(right, noise=1e-7), made_on={})
    assert {one.check for one in outcome.findings} == {"repeat"}
    assert outcome.matched == outcome.checked


def test_an_accelerator_may_round_otherwise_each_time_and_no_more() -> None:
    known = with_reference(NPU)
    assert verify(known, NPU, asker(right, noise=1e-2), made_on={}).status == "matched"
    assert verify(known, NPU, asker(right, noise=1e-1), made_on={}).status == "failed"


# ---- nothing passes for something --------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_cpu_in_a_narrow_format_may_round_by_the_company_and_in_fp32_may_not(dtype: str) -> None:
    """A batch goes another way through the kernels than a single text."""
    narrow = Key("cpu", dtype, "some CPU")

    def rounding(request: Request) -> dict[str, Answer]:
        company = 1 + 5e-4 * len(request.inputs["texts"])
        told = asker(right)(request)
        return {name: Answer("vector", one.value * company) for name, one in told.items()}

    assert verify(golden(), narrow, rounding, made_on={}).findings == ()
    assert verify(golden(), CPU, rounding, made_on={}).findings


def test_without_a_reference_of_this_kind_it_is_unverified() -> None:
    outcome = verify(with_reference(CPU), NPU, asker(right), made_on={})
    assert (outcome.status, outcome.checked) == ("unverified", 0)


@pytest.mark.parametrize(
    "other",
    [
        Key("npu-emulated", "bf16", "Ascend910B1"),
        Key("npu", "fp16", "Ascend910B1"),
        Key("npu", "bf16", "Ascend310P3"),
    ],
    ids=["the emulated device", "another format", "another chip"],
)
def test_a_reference_judges_its_own_kind_only(other: Key) -> None:
    assert verify(with_reference(NPU), other, asker(right), made_on={}).status == "unverified"


def test_cpus_of_all_makes_judge_each_other() -> None:
    elsewhere = Key("cpu", "fp32", "another CPU")
    assert verify(with_reference(CPU), elsewhere, asker(right), made_on={}).status == "matched"


def test_an_empty_reference_is_a_failure() -> None:
    empty = Reference(CPU, {}, {}, "itself only")
    outcome = verify(replace(golden(), references=(empty,)), CPU, asker(right), made_on={})
    assert (outcome.status, outcome.checked) == ("failed", 0)


def test_a_missing_answer_and_one_too_many_are_findings() -> None:
    def fewer(request: Request) -> dict[str, Answer]:
        told = asker(right)(request)
        told.pop("vector.1", None)
        return {**told, "vector.9": Answer("vector", np.ones(8))}

    outcome = verify(with_reference(), CPU, fewer, made_on={})
    said = {sentence(one) for one in outcome.findings}
    assert "batched, vector.1: missing" in said
    assert "short, vector.9: not in the reference" in said
    assert outcome.status == "failed"


def test_a_request_that_was_recorded_and_is_gone_is_a_finding() -> None:
    """Else who takes out the request that fails has a set that matches."""
    known = with_reference()
    fewer = replace(known, requests=known.requests[1:])
    outcome = verify(fewer, CPU, asker(right), made_on={})
    gone = [one for one in outcome.findings if one.request == known.requests[0].name]
    assert [one.reason for one in gone] == ["recorded, but the set has no such request"]
    assert outcome.status == "failed"


def test_a_request_without_an_answer_is_a_finding_and_the_others_are_asked() -> None:
    def fails_on_long(request: Request) -> dict[str, Answer]:
        if request.name == "long":
            raise RunFailed("aclnnMatmul failed")
        return asker(right)(request)

    outcome = verify(with_reference(), CPU, fails_on_long, made_on={})
    assert sentence(outcome.findings[0]) == "long: no answer: aclnnMatmul failed"
    assert "permuted" in outcome.answers
    assert outcome.status == "failed"


def test_other_versions_than_those_recorded_are_told() -> None:
    outcome = verify(with_reference(), CPU, asker(right), made_on={"torch": "2.14.0"})
    assert outcome.notes == ("recorded with torch 2.13.0, here 2.14.0",)


# ---- recording ---------------------------------------------------------------------------------


def test_what_differs_from_the_cpu_is_not_recorded() -> None:
    anchor = with_reference(CPU).references[0]
    with pytest.raises(ParityFailed, match="not fit to be golden"):
        record(golden(), NPU, asker(ignores_the_window), made_on={}, anchor=anchor)


def test_what_only_rounds_otherwise_is_recorded_with_its_anchor() -> None:
    anchor = with_reference(CPU).references[0]
    made = record(golden(), NPU, asker(right, noise=1e-3), made_on={}, anchor=anchor)
    assert made.anchor == "within its rounding of cpu fp32 on some CPU"


def test_a_model_that_says_something_else_each_time_is_not_recorded() -> None:
    counter = itertools.count(1)

    def moody(request: Request) -> dict[str, Answer]:
        return {"vector.0": Answer("vector", np.ones(8) * next(counter))}

    requests = (Request("short", {"texts": ["a"]}),)
    with pytest.raises(ParityFailed):
        record(replace(golden(), requests=requests), NPU, moody, made_on={})


def test_a_task_without_requests_says_to_bring_some() -> None:
    with pytest.raises(InvalidRequest) as caught:
        usual_requests("image2video", Facts())
    assert "--requests" in (caught.value.hint or "")


# ---- on disk -----------------------------------------------------------------------------------


def test_a_set_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    known = with_reference()
    write(known, tmp_path)
    again = read(tmp_path)
    assert again.requests == known.requests
    assert verify(again, CPU, asker(right), made_on={}).status == "matched"
    assert verify(again, CPU, asker(ignores_padding), made_on={}).status == "failed"


def test_files_of_requests_come_along(tmp_path: Path) -> None:
    sound = tmp_path / "elsewhere" / "speech.flac"
    sound.parent.mkdir()
    sound.write_bytes(b"sound")
    requests = usual_requests("audio2text", Facts(speech=str(sound)))
    write(Golden("toy", "0", "audio2text", requests), tmp_path / "set")
    sound.unlink()
    again = read(tmp_path / "set")
    assert Path(again.requests[0].inputs["audio"]).read_bytes() == b"sound"


def test_numbers_that_are_not_those_recorded_are_refused(tmp_path: Path) -> None:
    write(with_reference(), tmp_path)
    numbers = tmp_path / "cpu-fp32.safetensors"
    numbers.write_bytes(numbers.read_bytes()[:-1] + b"\x01")
    with pytest.raises(InvalidInput, match="not the file that was recorded"):
        read(tmp_path)


ONE = "{name: short, inputs: {texts: [a]}}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no requests"),
        ("[]", "holds no requests"),
        ("{a: 1}", "holds no requests"),
        ("- {name: short}", "holds no requests"),
        ("- {name: [", "holds no requests"),
        ("\x00", "holds no requests"),
        (f"[{ONE}, {ONE}]", "two requests named 'short'"),
        ("- {name: short, inputs: {texts: [a]}, cover: [short]}", "'covers'"),
    ],
)
def test_requests_of_ones_own_that_do_not_say_what_to_ask_are_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(InvalidRequest) as refused:
        read_requests(file)
    assert words in f"{refused.value.message} {refused.value.hint}"


def test_requests_of_ones_own_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"- {ONE}")
    assert read_requests(file) == (Request("short", {"texts": ["a"]}),)


@pytest.mark.parametrize("text", ["", "format: 2", "- a", "format: 1\nmodel: m", "{", "\x00"])
def test_a_damaged_set_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "golden.yaml").write_text(text)
    with pytest.raises(InvalidInput, match=r"golden\.yaml"):
        read(tmp_path)
