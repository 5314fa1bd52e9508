"""Reading `.npy` without numpy, and comparing rows."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.reporting.vectors import cosine, rows_of, similarities

np = pytest.importorskip("numpy", reason="numpy writes the files that are read here")

NUMBERS = st.floats(-1e3, 1e3, width=32)


def written(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(deadline=None)
@given(rows=st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=5))
def test_what_numpy_wrote_is_read_exactly(dtype: str, rows: list[list[float]]) -> None:
    found = rows_of(written(np.array(rows, dtype)))
    assert found is not None
    assert [list(row) for row in found] == np.array(rows, dtype).tolist()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no numbers",
        written(np.zeros(3, "float32")),
        written(np.zeros((2, 2), "int32")),
        written(np.asfortranarray(np.ones((2, 3), "float32"))),
        written(np.zeros((2, 3), "float32"))[:-4],
        b"\x93NUMPY\x01\x00\x04\x00{{}}",
        b"\x93NUMPY\x01\x00\x02\x00__",
    ],
)
def test_any_other_content_is_no_rows(content: bytes) -> None:
    assert rows_of(content) is None


@settings(deadline=None)
@given(st.lists(st.lists(NUMBERS, min_size=4, max_size=4), min_size=1, max_size=4))
def test_similarity_is_the_cosine_that_numpy_finds(rows: list[list[float]]) -> None:
    array = np.array(rows, "float64")
    lengths = np.linalg.norm(array, axis=1)
    lengths[lengths == 0] = 1
    expected = (array @ array.T) / np.outer(lengths, lengths)
    assert np.allclose(similarities(rows), expected, atol=1e-9)


def test_a_vector_without_length_is_like_nothing() -> None:
    assert cosine([0.0, 0.0], [1.0, 2.0]) == 0.0
