"""Where somebody speaks, in probabilities made by hand; and the windows that are cut from it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import WeightsUnavailable
from jumar.runtime.families.transcription.activity import (
    FRAME_S,
    RATE,
    Rules,
    Silero,
    loudness,
    pack,
    silence,
    speech,
)

np = pytest.importorskip("numpy")

BARE = Rules(margin=0.0)


def likely(*parts: tuple[float, float]) -> np.ndarray:
    """(seconds, probability) after one another."""
    return np.concatenate([np.full(round(s / FRAME_S), p, np.float32) for s, p in parts])


def test_two_stretches_of_speech_are_found_where_they_are() -> None:
    found = speech(likely((1, 0), (2, 0.9), (1.5, 0.1), (1, 0.8), (1, 0)), BARE)
    assert found == [pytest.approx((1, 3), abs=0.05), pytest.approx((4.5, 5.5), abs=0.05)]


def test_a_dip_that_stays_above_the_lower_threshold_ends_nothing() -> None:
    assert len(speech(likely((1, 0.9), (1, 0.4), (1, 0.9)), BARE)) == 1
    assert len(speech(likely((1, 0.9), (1, 0.3), (1, 0.9)), BARE)) == 2


def test_a_short_pause_ends_nothing() -> None:
    assert len(speech(likely((1, 0.9), (0.2, 0), (1, 0.9)), BARE)) == 1


def test_a_click_is_no_speech() -> None:
    assert speech(likely((1, 0), (0.1, 0.9), (1, 0))) == []


def test_stretches_whose_margins_meet_are_one() -> None:
    row = likely((1, 0.9), (0.35, 0), (1, 0.9))
    assert len(speech(row, Rules(margin=0.2))) == 1
    assert len(speech(row, BARE)) == 2


def test_silence_is_everything_else() -> None:
    row = likely((1, 0), (2, 0.9), (1, 0))
    assert silence(row, BARE) == [pytest.approx((0, 1), abs=0.05), pytest.approx((3, 4), abs=0.05)]
    assert silence(likely((2, 0)), BARE) == [pytest.approx((0, 2), abs=0.05)]


def test_nothing_is_heard_in_no_sound_at_all() -> None:
    assert speech(np.zeros(0, np.float32)) == []
    assert pack([], np.zeros(0, np.float32), 30.0) == []


def test_neighbours_share_a_window_and_a_long_pause_begins_another() -> None:
    spans = [(0.0, 5.0), (6.0, 12.0), (15.0, 20.0)]
    assert pack(spans, np.zeros(1000), 30.0) == [(0.0, 12.0), (15.0, 20.0)]


def test_a_window_that_would_be_too_long_is_begun_anew() -> None:
    spans = [(0.0, 20.0), (21.0, 29.0), (29.5, 40.0)]
    assert pack(spans, np.zeros(2000), 30.0) == [(0.0, 29.0), (29.5, 40.0)]


def test_speech_without_a_pause_is_cut_where_it_is_quietest() -> None:
    row = likely((24, 0.9), (0.1, 0.5), (20, 0.9))
    first, second = pack([(0.0, len(row) * FRAME_S)], row, 30.0)
    assert first[1] == second[0] == pytest.approx(24, abs=0.1)


@given(
    st.lists(st.tuples(st.floats(0.05, 90), st.sampled_from([0.0, 0.9])), max_size=12),
    st.sampled_from([10.0, 30.0]),
)
def test_windows_hold_all_speech_in_order_and_none_is_too_long(
    parts: list[tuple[float, float]], longest: float
) -> None:
    row = likely(*parts, (0.5, 0.0))
    spans = speech(row)
    windows = pack(spans, row, longest)
    assert all(0 < end - begin <= longest + 1e-6 for begin, end in windows)
    assert all(one[1] <= other[0] + 1e-9 for one, other in pairwise(windows))
    for begin, end in spans:
        for moment in np.linspace(begin, end, 7):
            assert any(w[0] - 1e-6 <= moment <= w[1] + 1e-6 for w in windows)


def test_loudness_has_a_value_per_frame_and_ends_where_the_sound_does() -> None:
    sound = np.concatenate([np.zeros(RATE), np.full(RATE, 0.5)]).astype(np.float32)
    curve = loudness(sound)
    assert len(curve) == -(-2 * RATE // 512)
    assert curve[:30].max() == 0
    assert curve[40:60] == pytest.approx(0.5)


def test_a_graph_that_is_not_the_detectors_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "vad.onnx"
    path.write_bytes(b"no graph")
    with pytest.raises(WeightsUnavailable, match="no ONNX graph"):
        Silero(path)
