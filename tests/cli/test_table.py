"""What stands in a table is what was given, whatever it looks like."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jumar.cli.table import print_table

signs = st.text(st.sampled_from("a[]/:b =.\\"), min_size=1, max_size=12).map(lambda t: f"<{t}>")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=signs, last=signs)
def test_no_sign_of_a_text_means_anything(
    capsys: pytest.CaptureFixture[str], first: str, last: str
) -> None:
    print_table([(first, last)])
    assert capsys.readouterr().out.rstrip() == f"{first}  {last}"


@pytest.mark.parametrize("text", ["write families: [mean]", "at [/layer]", "a:heart:b", "[red]x"])
def test_names_in_brackets_and_between_colons_stay(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    print_table([(text, "")], headings=("WHAT", ""))
    assert text in capsys.readouterr().out
