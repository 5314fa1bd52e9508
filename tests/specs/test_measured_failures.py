"""What was measured to go wrong in another runtime of the same models, and what shows that here.

Each row: the failure, and the specifications that would fail there. A row whose specification is
renamed or removed fails, so that the table stays true.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS, SOURCE = ROOT / "tests", ROOT / "src" / "jumar"

SHOWN: dict[str, tuple[str, ...]] = {
    # First contact
    "a base install cannot list models or check a request": (
        "catalog/test_index.py::test_listing_loads_neither_pydantic_nor_yaml_nor_importlib_metadata",
        "cli/test_app.py::test_what_is_asked_often_loads_nothing_heavy",
    ),
    "the wheel lacks files that commands need": (
        "catalog/test_index.py::test_building_the_package_writes_the_index",
        "catalog/test_manifest.py::test_every_embedded_file_is_named_with_its_digest",
    ),
    "the documented call of the speech service is refused by the parser": (
        "specs/test_measured_failures.py::test_the_call_that_others_document_is_understood",
        "cli/test_generate.py::test_command_lines_of_omnirt_are_understood",
    ),
    "examples of the documents do not run": (
        "specs/test_documents.py::test_the_examples_of_a_page_run_in_order",
    ),
    "a CPU generates nothing from a local model": (
        (
            "runtime/families/test_sdxl_digits.py"
            "::test_at_least_nine_of_ten_pictures_show_the_digit_asked_for"
        ),
        "runtime/families/test_transcription.py::test_what_the_voice_says_is_written_down",
    ),
    "a model that is not configured is a traceback": (
        "runtime/families/test_avatar.py::test_without_a_checkout_the_error_says_how_to_get_one",
        "cli/test_errors_shown.py::test_a_fault_of_jumar_shows_no_traceback_but_says_how_to_get_one",
    ),
    "a module that is imported first cannot be imported": (
        "specs/test_measured_failures.py::test_no_modules_import_each_other_in_a_circle",
    ),
    "somebody's folders and addresses are defaults": (
        "specs/test_measured_failures.py::test_no_folder_or_address_of_somebody_is_in_the_source",
    ),
    # Serving
    "a run keeps the probes waiting": (
        "server/test_jobs.py::test_while_a_job_runs_everything_else_answers",
    ),
    "bounds of concurrency do not hold for requests that are waited for": (
        "engine/test_house.py::test_no_more_requests_are_at_work_than_allowed",
        "server/test_doors.py::test_a_full_queue_is_429_at_once_and_says_when_to_come_again",
    ),
    "presets and defaults do not hold over HTTP": (
        "server/test_generate.py::test_a_preset_is_applied_as_everywhere",
        "server/test_generate.py::test_over_http_a_request_resolves_to_what_it_is_in_python",
    ),
    "other steps load the model again": (
        "engine/test_house.py::test_what_is_no_load_time_key_never_loads_another",
        "catalog/test_resolve.py::test_what_is_loaded_depends_on_load_time_keys_only",
    ),
    "a load keeps a loaded model from answering": (
        "engine/test_house.py::test_a_loaded_model_answers_while_another_loads",
        "engine/test_house.py::test_two_models_load_at_the_same_time",
    ),
    "a model is let go while it is in use": (
        "engine/test_house.py::test_a_busy_model_that_has_to_go_answers_what_waits_for_it_first",
    ),
    "a WebSocket needs no key": ("server/test_doors.py::test_a_websocket_needs_a_key_as_well",),
    "callers name addresses, folders and files of the server": (
        "server/test_generate.py::test_what_is_the_operators_no_caller_may_name",
        "server/test_generate.py::test_nothing_is_told_of_files_that_may_not_be_named",
        "server/openai/test_own_models.py::test_a_file_of_the_server_cannot_be_named",
        "server/openai/test_upstreams.py::test_an_upstream_fetches_nothing_for_a_caller",
    ),
    "a secret comes back in clear": (
        "runtime/families/test_remote.py::test_a_key_is_sent_and_never_reported",
        "catalog/test_resolve.py::test_a_secret_is_masked_where_others_see_it",
        "server/test_doors.py::test_no_key_is_ever_in_the_log",
    ),
    "paths of the server stand where links should": (
        "server/openai/test_own_models.py::test_pictures_come_as_content_and_as_links_to_it",
        "server/test_outward.py::test_a_full_disk_is_told_to_callers_without_its_folders",
        "server/test_outward.py::test_nor_are_jobs_their_events_and_their_traces",
    ),
    "fields of a body are taken and ignored": (
        "server/openai/test_own_models.py::test_an_edit_ignores_no_field",
        "server/openai/test_own_models.py::test_what_no_model_here_can_honour_is_refused",
        "server/test_cards.py::test_a_tier_narrows_the_list",
    ),
    "a method that a path does not have is a mistake in the body": (
        (
            "server/test_openapi.py"
            "::test_a_method_that_a_path_does_not_have_is_refused_with_those_that_it_has"
        ),
    ),
    "events of a job that is over never end": (
        "server/test_jobs.py::test_events_of_a_job_that_is_over_come_and_end_at_once",
    ),
    "events are lost or come twice": (
        "server/test_jobs.py::test_who_comes_back_hears_only_what_he_missed",
        "server/test_jobs.py::test_events_come_from_the_first_and_end_with_the_job",
    ),
    "what runs cannot be stopped, and the answer says it was": (
        "server/test_jobs.py::test_a_running_job_is_cancelled_by_delete",
        "engine/test_jobs.py::test_a_job_that_runs_is_told_to_stop",
    ),
    "any failure is a 500 in plain text": (
        "server/test_generate.py::test_a_failed_run_is_an_error_with_its_report_beside_it",
        "server/test_generate.py::test_an_unknown_path_or_method_has_the_envelope_too",
    ),
    "a missing model or a wrong number is a 500": (
        "server/openai/test_own_models.py::test_a_body_without_a_model_is_the_callers_mistake",
        "server/openai/test_own_models.py::test_what_is_wrong_is_told_in_the_envelope",
    ),
    "an unknown model gets a made-up answer": (
        "server/openai/test_upstreams.py::test_unknown_names_stay_unknown_on_other_surfaces",
        "catalog/test_resolve.py::test_an_unknown_model_names_the_nearest",
    ),
    "a store that raises ends the thread that works": (
        "engine/test_jobs.py::test_a_store_that_fails_never_reaches_the_run",
    ),
    "jobs are never forgotten": (
        "engine/test_jobs.py::test_what_is_over_for_long_is_forgotten_with_its_events",
        "server/test_shelf.py::test_what_is_too_old_goes_and_what_was_made_again_stays",
    ),
    "a restart loses jobs that waited": (
        "server/test_process.py::test_jobs_survive_a_server_that_is_killed",
        "engine/test_jobs.py::test_after_a_restart_what_ran_has_failed_and_what_waited_is_asked_again",
    ),
    "a later run writes over an earlier one's files": (
        "runtime/test_artifacts.py::test_equal_content_is_one_file_and_other_content_another",
        "runtime/families/test_diffusion_run.py::test_a_seed_that_nobody_gave_is_drawn_and_recorded",
    ),
    # Distributed
    "jobs go another way than requests that are waited for": (
        "server/test_jobs.py::test_a_worker_killed_in_a_job_is_replaced_and_the_job_is_done",
        "server/test_metrics.py::test_runs_are_counted_by_how_they_ended_jobs_too",
    ),
    "a worker that ends without a word counts as done": (
        "isolate/test_endings.py::test_a_child_that_goes_as_if_all_were_well_has_not_answered",
    ),
    "a shared store can be told of a job only by who has it in memory": (
        "engine/test_stores_agree.py::test_two_stores_that_are_told_the_same_say_the_same",
        "engine/test_shared_jobs.py::test_the_jobs_of_a_server_that_was_killed_are_taken_over",
    ),
    "a long run is taken for a lost one": (
        "engine/test_watched.py::test_a_worker_that_says_how_far_it_is_does_not_hang",
    ),
    "a worker's artifact is a path that its caller cannot read": (
        "server/test_generate.py::test_artifacts_come_in_the_body_where_that_is_asked_for",
        "server/test_generate.py::test_no_path_of_the_server_is_in_an_answer",
    ),
    "a report loses fields between two processes": (
        "engine/test_watched.py::test_a_run_in_a_process_of_its_own_reports_what_a_run_here_does",
    ),
    "runs of others are in no metric": (
        "server/test_metrics.py::test_runs_are_counted_by_how_they_ended_jobs_too",
    ),
    "health says ready whatever is": (
        "server/test_readiness.py::test_it_is_not_ready_while_a_named_model_proves_itself",
        "server/test_readiness.py::test_a_model_whose_goldens_fail_answers_nobody",
    ),
    "a process that fails leaves the others hanging": (
        "runtime/families/test_avatar.py::test_silence_ends_it",
        "engine/test_watched.py::test_a_worker_that_makes_no_progress_is_ended_where_it_stands",
    ),
    "another server's failure loses its words, and its 200 that is none is kept as sound": (
        "server/openai/test_upstreams.py::test_what_goes_wrong_there_is_a_typed_error_here",
        "runtime/families/test_remote.py::test_what_goes_wrong_there_is_told_in_its_words",
    ),
    "a stream is read to its end before its first byte leaves": (
        "server/openai/test_upstreams.py::test_the_first_byte_leaves_before_the_last_has_come",
    ),
    # Silently wrong
    "a negative prompt is ignored after a run that had none": (
        (
            "runtime/families/test_diffusion_run.py"
            "::test_a_negative_prompt_counts_also_after_a_run_that_had_no_use_for_one"
        ),
    ),
    "a cache can never hit": (
        (
            "server/test_classify.py"
            "::test_a_text_that_was_read_is_not_read_again_and_the_answer_says_so"
        ),
        "engine/test_results.py::test_with_none_kept_everything_is_computed",
    ),
    "references of which there are none agree with everything": (
        "lab/test_golden.py::test_an_empty_reference_is_a_failure",
        "lab/test_golden.py::test_a_request_that_was_recorded_and_is_gone_is_a_finding",
    ),
    "a variable never takes effect, since a default stands before it": (
        "catalog/test_environment.py::test_a_variable_is_a_default_and_told_as_the_origin",
        "runtime/families/test_remote.py::test_the_variable_names_the_server",
    ),
    "a scheduler is accepted and not used": (
        (
            "runtime/families/test_diffusion_load.py"
            "::test_each_one_changes_the_result_and_the_models_own_is_put_back"
        ),
    ),
    "statistics of latents are never there": (
        "runtime/families/test_diffusion_run.py::test_the_final_latents_are_described",
    ),
    "a warm run does not say how its modules ran": (
        "runtime/test_ladder.py::test_the_timeline_is_there_on_warm_runs_and_not_before_the_first_call",
        (
            "runtime/families/test_diffusion_run.py"
            "::test_every_module_that_computes_is_in_the_timeline_of_warm_runs_too"
        ),
    ),
    "a graph counts as working before it has computed anything": (
        "runtime/test_ladder.py::test_a_graph_that_fails_falls_back_to_eager_and_names_the_operator",
        "runtime/test_ladder.py::test_a_graph_that_answers_wrongly_is_not_taken",
    ),
    "an option that could not be applied is reported as applied": (
        "runtime/families/test_diffusion_load.py::test_an_option_that_cannot_be_applied_is_refused",
        "runtime/families/test_diffusion_load.py::test_torchao_quantizes_the_denoiser",
    ),
    "a collector that does not answer holds the run": (
        (
            "server/test_tracing.py"
            "::test_a_collector_that_does_not_answer_keeps_nobody_waiting_and_is_told_of"
        ),
    ),
    "spans of jobs never open": (
        "server/test_tracing.py::test_a_job_is_in_the_trace_of_who_asked_for_it",
    ),
    "a model is built anew for each request": (
        "engine/test_watched.py::test_a_model_is_loaded_once_and_asked_often",
    ),
    "weights run code of their own": (
        "runtime/families/test_diffusion_load.py::test_pickled_weights_are_refused",
        (
            "runtime/weights/test_weights_wheel.py"
            "::test_the_files_come_through_pip_and_nothing_of_them_is_run"
        ),
    ),
    "memory of a device is kept when a model has gone": (
        "emulated/test_house.py::test_with_one_place_each_model_has_the_card_for_itself",
        "engine/test_house.py::test_with_one_place_the_first_process_is_gone_before_the_second_loads",
    ),
    "a log is written wherever one stands": (
        "specs/test_measured_failures.py::test_commands_leave_nothing_where_they_were_called",
    ),
    "exceptions are swallowed": (
        "specs/test_measured_failures.py::test_nothing_catches_everything_and_says_nothing",
    ),
}


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("failure", SHOWN)
def test_each_failure_has_a_specification_that_is_there(failure: str) -> None:
    for place in SHOWN[failure]:
        file, _, name = place.partition("::")
        assert name in names_in(file), f"{place}: renamed or removed?"


def test_the_call_that_others_document_is_understood() -> None:
    """Word for word, with this program's name: nothing is asked, the server's address is taken."""
    import subprocess
    import sys

    line = (
        "--task text2audio --model vllm-omni-speech --server-url http://127.0.0.1:8091"
        " --upstream-model Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice --voice vivian --language English"
    )
    words = ["generate", "--prompt", "Hello from vLLM-Omni speech on Ascend.", *line.split()]
    done = subprocess.run(
        [sys.executable, "-m", "jumar", *words, "--dry-run", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for value in ("http://127.0.0.1:8091", "vivian", "English", "CustomVoice"):
        assert value in done.stdout


def test_commands_leave_nothing_where_they_were_called(tmp_path: Path) -> None:
    import subprocess
    import sys

    for words in (["models"], ["validate", "--model", "hibari", "--prompt", "Hello."]):
        subprocess.run(
            [sys.executable, "-m", "jumar", *words], cwd=tmp_path, capture_output=True, check=True
        )
    assert list(tmp_path.iterdir()) == []


def sources() -> Iterator[tuple[str, str]]:
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE.parent).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), file.read_text("utf-8")


def imported(tree: ast.Module, known: frozenset[str]) -> Iterator[str]:
    """Modules of ours that are imported when this one is: not inside functions or for types."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from (one for one in (whole, node.module) if one in known)


def circle(graph: dict[str, list[str]]) -> list[str]:
    """The modules of one circle, or none."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        for other in graph[module]:
            if found := walk(other, [*path, module]):
                return found
        done.add(module)
        return []

    return next((found for module in graph if (found := walk(module, []))), [])


def test_no_modules_import_each_other_in_a_circle() -> None:
    trees = {name: ast.parse(text) for name, text in sources()}
    known = frozenset(trees)
    graph = {
        name: [other for other in imported(tree, known) if not name.startswith(f"{other}.")]
        for name, tree in trees.items()
    }
    # A package whose __init__ imports its own modules is no circle: they do not need it whole.
    graph = {
        name: [other for other in others if not f"{other}.".startswith(f"{name}.")]
        for name, others in graph.items()
    }
    assert circle(graph) == []
    assert circle({"a": ["b"], "b": ["c"], "c": ["a"]}) == ["a", "b", "c"], "a circle is seen"


_PRIVATE = re.compile(
    r"/home/(?!user\b)[a-z]\w*|/Users/\w+|\b(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}\b"
)


def test_no_folder_or_address_of_somebody_is_in_the_source() -> None:
    found = {f"{name}: {match[0]}" for name, text in sources() for match in _PRIVATE.finditer(text)}
    assert found == set()
    assert _PRIVATE.search("'/home/alice/models'") and _PRIVATE.search("192.168.1.20")


def silent(tree: ast.AST) -> Iterator[int]:
    """Lines of handlers that catch everything and do nothing at all."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            named = ast.unparse(node.type) if node.type else "BaseException"
            empty = all(isinstance(part, ast.Pass | ast.Continue) for part in node.body)
            if empty and {"Exception", "BaseException"} & set(re.findall(r"\w+", named)):
                yield node.lineno


def test_nothing_catches_everything_and_says_nothing() -> None:
    found = [f"{name}:{line}" for name, text in sources() for line in silent(ast.parse(text))]
    assert found == []
    assert list(silent(ast.parse("try: pass\nexcept Exception: pass"))) == [2], "one is seen"
