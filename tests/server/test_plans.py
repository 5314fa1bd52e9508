"""What the operator sets is loaded and shown, no caller changes it, and typos are told at start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.isolate.conftest import eventually
from tests.support.serving import Running, serving

from jumar.contracts.errors import InvalidInput, InvalidValue, JumarError, UnknownKey, UnknownModel
from jumar.engine.plan import Plan
from jumar.engine.queue import Batching
from jumar.engine.service import Service
from jumar.server.plans import Served, read_plans

ENCODER = "all-minilm-l6-v2"


def planned(*named: str, pairs: tuple[str, ...] = (), file: Path | None = None) -> Served:
    return read_plans(named, pairs, file, Service(), "cpu")


def written(folder: Path, text: str) -> Path:
    file = folder / "models.yaml"
    file.write_text(text)
    return file


def test_without_words_of_the_operator_no_model_has_a_plan() -> None:
    assert planned("hibari", "minilm") == Served(["hibari", ENCODER])


def test_a_key_is_set_for_the_models_that_have_it() -> None:
    served = planned("hibari", ENCODER, pairs=("dtype=bf16",))
    assert served.plans == {ENCODER: Plan({"dtype": "bf16"})}


def test_a_key_with_a_model_is_set_for_that_one_also_where_models_are_loaded_on_demand() -> None:
    served = planned(pairs=("minilm:compile=off",))
    assert served == Served([], plans={ENCODER: Plan({"compile": "off"})})


def test_whatever_an_option_may_be_an_entry_may_be_too(tmp_path: Path) -> None:
    """Nothing waits and nothing is kept: both are what the line says with a 0."""
    file = written(
        tmp_path, "models: [{model: hibari, batch_window_ms: 0, result_cache_entries: 0}]\n"
    )
    usual = Service(batching=Batching(window=0.05), results=9)
    assert read_plans((), (), file, usual, "cpu").plans == {
        "hibari": Plan(service=Service(batching=Batching(window=0.0), results=0))
    }


def test_a_file_names_models_devices_workers_and_load_keys(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "models:\n"
        "  - {model: minilm, name: embedder, device: cpu, workers: 2, max_batch_size: 8,\n"
        "     batch_window_ms: 2, config: {compile: off}}\n"
        "  - hibari\n",
    )
    service = Service(workers=2, batching=Batching(8, window=0.002))
    assert planned("sdxl-digits", file=file) == Served(
        ["sdxl-digits", ENCODER, "hibari"],
        {"embedder": ENCODER},
        {ENCODER: Plan({"compile": "off"}, "cpu", service), "hibari": Plan()},
    )


@pytest.mark.parametrize(
    ("pair", "kind", "hint"),
    [
        ("dtyp=bf16", UnknownKey, "Did you mean 'dtype'?"),
        ("dtype=bf61", InvalidValue, "Did you mean 'bf16'?"),
        ("normalize=true", UnknownKey, None),
        ("minilmm:dtype=bf16", UnknownModel, None),
        ("minilm:dtyp=bf16", UnknownKey, "Did you mean 'dtype'?"),
        ("dtype", InvalidValue, "Or MODEL:KEY=VALUE."),
    ],
)
def test_what_cannot_be_set_is_refused(pair: str, kind: type[JumarError], hint: str | None) -> None:
    with pytest.raises(kind) as refused:
        planned(ENCODER, pairs=(pair,))
    assert hint is None or hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("models: [{model: hibari, worker: 2}]", UnknownKey, "Did you mean 'workers'?"),
        ("models: [{model: hibari, workers: none}]", InvalidValue, "a whole number above 0"),
        ("models: [{model: hibary}]", UnknownModel, "hibari"),
        ("models: [{name: hibari}]", InvalidInput, "model: NAME"),
        ("models: {}", InvalidInput, "models: [{model"),
        ("models: [hibari, hibari]", InvalidValue, "One entry"),
        ("models: [{model: hibari, name: minilm}]", InvalidValue, "another model"),
        ("models: [", InvalidInput, "Cannot read"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_what_would_be_right(
    text: str, kind: type[JumarError], said: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as refused:
        planned(file=written(tmp_path, text))
    assert said in f"{refused.value} {refused.value.hint}"


def test_a_caller_cannot_name_another_value_than_the_operators(tmp_path: Path) -> None:
    plans = {"toy": Plan({"dtype": "fp32"})}
    with serving(tmp_path, "toy", plans=plans) as server:
        server.ready()
        other = server.ask("hello", config={"dtype": "bf16"})
        same = server.ask("hello", config={"dtype": "fp32"})
        none = server.ask("hello")
        loaded = [one.loaded.load_config["dtype"] for one in server.desk.house.models()]
    assert (other.status_code, other.json()["error"]["param"]) == (400, "config.dtype")
    assert "served with dtype='fp32'" in other.json()["error"]["message"]
    for answer in (same, none):
        report = answer.json()["metadata"]
        assert (report["config_resolved"]["dtype"], report["config_origins"]["dtype"]) == (
            "fp32",
            "server",
        )
    assert loaded == ["fp32"], "loaded once, for all of them"


def test_without_a_plan_another_value_is_another_load(server: Running) -> None:
    report = server.ask("hello", config={"dtype": "bf16"}).json()["metadata"]
    assert report["config_origins"]["dtype"] == "caller"
    assert len(server.desk.house.models()) == 2


def test_a_wrong_request_costs_no_place_in_a_queue_that_is_full(tmp_path: Path) -> None:
    with serving(tmp_path, "toy", service=Service(queue=1)) as server:
        server.ready()
        jobs = [server.ask("slow", async_run=True)]
        assert eventually(lambda: server.desk.jobs.live["running"] == 1)
        jobs += [server.ask("slow", async_run=True) for _ in range(2)]
        assert jobs[-1].status_code == 429
        (wrong,) = [server.ask("hello", config={"spede": 1.0})]
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "unknown_key")
        for job in jobs[:2]:
            server.client.delete(f"/v1/jobs/{job.json()['id']}")


class TestInProcess:
    def test_cards_and_reports_say_that_there_is_no_process(self, tmp_path: Path) -> None:
        with serving(tmp_path, "toy", service=Service(in_process=True)) as server:
            server.ready()
            report = server.ask("hello").json()["metadata"]
            card = server.client.get("/v1/models/toy").json()
            zygote = server.desk.house._zygote
            assert zygote is not None and not list(zygote._children)
        assert (report["execution_mode"], report["worker_id"]) == ("inline", None)
        assert (card["execution_mode"], card["ready"]) == ("inline", True)

    def test_a_model_in_a_process_of_its_own_says_so(self, server: Running) -> None:
        assert server.client.get("/v1/models/toy").json()["execution_mode"] == "isolated"

    def test_a_failure_is_a_result_and_the_model_goes_on(self, tmp_path: Path) -> None:
        with serving(tmp_path, "toy", service=Service(in_process=True)) as server:
            server.ready()
            failed = server.ask("fail")
            assert (failed.status_code, failed.json()["error"]["code"]) == (500, "run_failed")
            assert server.ask("hello").status_code == 200

    @pytest.mark.parametrize("more", [{"workers": 2}, {"heartbeat": 1.0}, {"load_heartbeat": 1.0}])
    def test_it_is_refused_together_with_what_needs_processes(self, more: dict[str, float]) -> None:
        with pytest.raises(InvalidValue, match="processes of their own"):
            Service(in_process=True, **more)  # type: ignore[arg-type]
