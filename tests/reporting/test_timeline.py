"""When each stage began and how long it took, from events and timings."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reporting.samples import climbed, events, failed_report, report, steps

from jumar.contracts.results import RunReport
from jumar.reporting.timeline import Span, fell_back, spans, total_ms


def test_the_stages_stand_in_the_order_in_which_they_began() -> None:
    assert [(s.stage, s.begin, s.ms) for s in spans(report())] == [
        ("fetch", 0, 12),
        ("load", 13, 810),
        ("encode", 824, 45),
        ("denoise", 870, 1370),
        ("decode", 2241, 120),
        ("export", 2362, 8),
    ]


def test_a_stage_knows_how_many_steps_it_told_of() -> None:
    assert {s.stage: s.steps for s in spans(report())}["denoise"] == 20


def test_bytes_are_no_steps() -> None:
    told = [*events(("fetch", 0, 100)), *steps("fetch", 0, 100, 4)]
    for event in told:
        if event.event == "step":
            event.data = {**event.data, "unit": "bytes"}
    told.sort(key=lambda event: event.timestamp_ms)
    assert spans(report(stream_events=told))[0].steps is None


def test_a_stage_inside_another_is_one_deeper() -> None:
    inner = report(timings={}, stream_events=events(("hear", 0, 100), ("vad", 10, 20)))
    assert [(s.stage, s.depth) for s in spans(inner)] == [("hear", 0), ("vad", 1)]


def test_a_stage_that_runs_again_has_its_own_time_each_time() -> None:
    told = events(("chunk", 0, 10), ("chunk", 20, 50))
    told[-1].data = {"ms": 40.0}  # the sum, as a run counts it
    assert [s.ms for s in spans(report(timings={"chunk_ms": 40.0}, stream_events=told))] == [10, 30]


def test_a_report_without_events_has_its_timings_end_to_end() -> None:
    old = report(timings={"denoise_loop_ms": 900.0, "decode_ms": 100.0}, stream_events=[])
    assert spans(old) == [Span("denoise_loop", 0, 900), Span("decode", 900, 100)]
    assert total_ms(old) == 1000


def test_a_stage_that_failed_is_marked() -> None:
    assert [(s.stage, s.failed) for s in spans(failed_report())] == [
        ("load", False),
        ("denoise", True),
    ]


def test_a_stage_that_never_ended_reaches_to_the_last_event() -> None:
    cut = report(timings={}, stream_events=report().stream_events[:8])
    (last,) = [s for s in spans(cut) if s.failed]
    assert last.stage == "denoise"
    assert last.ms > 0


def test_a_rung_that_was_tried_and_failed_is_a_fallback() -> None:
    assert fell_back(climbed(why="InductorError: no"))
    assert not fell_back(climbed())


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 0.999)), min_size=1, max_size=12))
def test_neighbours_never_overlap_although_stamps_are_whole_milliseconds(
    lengths: list[tuple[int, float]],
) -> None:
    told, clock = [], 0.0
    for number, (whole, part) in enumerate(lengths):
        begin, clock = clock, clock + whole + part
        pair = events((f"s{number}", int(begin), int(clock)))
        pair[1].data = {"ms": whole + part}
        told += pair
    drawn = spans(RunReport(run_id="x", task="t", model="m", backend="cpu", stream_events=told))
    assert [s.ms for s in drawn] == [whole + part for whole, part in lengths]
    for left, right in pairwise(drawn):
        assert left.end <= right.begin + 1e-6
