"""From a failing check to the guilty operators: minimal, all of them, and in few trials."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.contracts.errors import Cancelled, InsufficientMemory, InvalidValue, RunFailed
from jumar.evidence import Verdict
from jumar.lab.bisect import Culprits, bisect
from jumar.operators.base import Override, Overrides

ALL = [Override(f"aten::op{number:03}", "device") for number in range(400)]


class Machine:
    """Fails where one of the guilty sets is on as a whole; remembers what it was asked."""

    def __init__(self, *guilty: Overrides | set[Override]) -> None:
        self.guilty = guilty
        self.asked: list[Overrides] = []

    def __call__(self, on: Overrides) -> Verdict:
        self.asked.append(on)
        return Verdict("hangs" if any(one <= on for one in self.guilty) else "correct")


def pick(*numbers: int) -> frozenset[Override]:
    return frozenset(ALL[number] for number in numbers)


def test_one_culprit_among_400_is_found_in_at_most_11_trials_wherever_it_stands():
    worst = 0
    for number in range(400):
        found = bisect(Machine(pick(number)), ALL)
        assert found.sets == (pick(number),)
        worst = max(worst, found.trials)
    assert worst <= 11


def test_a_pair_that_only_fails_together_is_found_in_a_few_trials_more():
    worst = 0
    for pair in combinations(range(0, 400, 9), 2):
        found = bisect(Machine(pick(*pair)), ALL)
        assert found.sets == (pick(*pair),)
        worst = max(worst, found.trials)
    assert worst <= 22


@settings(deadline=None)
@given(st.sets(st.integers(0, 399), min_size=3, max_size=3))
def test_three_culprits_are_all_found_in_at_most_33_trials(numbers):
    found = bisect(Machine(*(pick(number) for number in numbers)), ALL)
    assert set(found.sets) == {pick(number) for number in numbers}
    assert found.trials <= 33


@settings(deadline=None)
@given(
    st.lists(
        st.sets(st.integers(0, 29), min_size=1, max_size=4).map(lambda s: pick(*s)),
        min_size=1,
        max_size=5,
    )
)
def test_every_set_fails_passes_without_any_member_and_nothing_fails_without_all_sets(guilty):
    fails = Machine(*guilty)
    found = bisect(fails, ALL[:30])
    named = frozenset[Override]().union(*found.sets)
    assert sum(map(len, found.sets)) == len(named)
    for one in found.sets:
        assert not fails(one).ok
        assert all(fails(one - {member}).ok for member in one)
    assert fails(frozenset(ALL[:30]) - named).ok


@settings(deadline=None)
@given(st.sets(st.integers(0, 59), min_size=1, max_size=3))
def test_no_set_is_tried_twice(numbers):
    machine = Machine(pick(*numbers))
    found = bisect(machine, ALL[:60])
    assert len(machine.asked) == len(set(machine.asked)) == len(found.log)


def test_a_suspect_that_is_guilty_saves_the_search():
    found = bisect(Machine(pick(7)), ALL, suspects=pick(7))
    assert found.sets == (pick(7),) and found.trials == 2


def test_a_suspect_that_is_innocent_costs_one_trial():
    found = bisect(Machine(pick(7)), ALL, suspects=pick(300))
    assert found.sets == (pick(7),) and found.trials <= 12


def test_a_check_that_passes_with_everything_on_has_nothing_to_find():
    found = bisect(Machine(), ALL)
    assert (found.finding, found.culprits, found.trials) == ("passes", (), 0)


def test_a_check_that_fails_with_everything_off_has_its_fault_elsewhere():
    found = bisect(Machine(frozenset()), ALL)
    assert (found.finding, found.culprits, found.trials) == ("elsewhere", (), 0)


def test_what_more_operators_heal_does_not_fool_the_minimum():
    def healed(on: Overrides) -> Verdict:
        ill = pick(3) <= on and (not pick(5) <= on or pick(9) <= on)
        return Verdict("wrong" if ill else "correct")

    found = bisect(healed, ALL[:12])
    for one in found.sets:
        assert not healed(one).ok and all(healed(one - {member}).ok for member in one)


class Fickle:
    """Fails every third time while the culprit is on."""

    def __init__(self, culprit: Override) -> None:
        self.culprit = culprit
        self.calls = 0

    def __call__(self, on: Overrides) -> Verdict:
        self.calls += self.culprit in on
        return Verdict("wrong" if self.culprit in on and self.calls % 3 == 0 else "correct")


def test_a_fault_that_comes_and_goes_is_found_by_repeating_and_called_so():
    found = bisect(Fickle(ALL[11]), ALL[:40], repeat=6)
    (culprit,) = found.culprits
    assert culprit.overrides == (ALL[11],)
    assert culprit.verdict.kind == "nondeterministic"
    assert found.confidence is not None and 0 < found.confidence < 1


def test_without_repeating_the_same_fault_is_missed():
    assert bisect(Fickle(ALL[11]), ALL[:40]).finding == "passes"


def test_confidence_grows_with_repeating():
    few, many = (bisect(Fickle(ALL[1]), ALL[:8], repeat=n).confidence for n in (6, 24))
    assert few is not None and many is not None and few < many


def test_nothing_is_said_of_confidence_where_each_trial_ran_once():
    assert bisect(Machine(pick(1)), ALL[:8]).confidence is None


@pytest.mark.parametrize(
    ("kind", "error"), [("out_of_memory", InsufficientMemory), ("unsupported", RunFailed)]
)
def test_a_trial_without_a_verdict_is_run_once_more_and_then_an_error(kind, error):
    asked = []

    def full(on: Overrides) -> Verdict:
        asked.append(on)
        return Verdict(kind, "no room")

    with pytest.raises(error, match="no room"):
        bisect(full, ALL[:4])
    assert len(asked) == 2


def test_memory_that_was_short_once_changes_nothing():
    machine, short = Machine(pick(2)), [Verdict("out_of_memory")]
    found = bisect(lambda on: short.pop() if short else machine(on), ALL[:4])
    assert found.sets == (pick(2),)


def test_a_trial_that_was_stopped_stops_the_bisection():
    def stopped(on: Overrides) -> Verdict:
        raise Cancelled("Stopped.")

    with pytest.raises(Cancelled):
        bisect(stopped, ALL[:4])


@pytest.mark.parametrize(("overrides", "repeat"), [([], 1), (ALL[:2], 0)])
def test_what_cannot_be_bisected_is_refused(overrides, repeat):
    with pytest.raises(InvalidValue):
        bisect(Machine(), overrides, repeat=repeat)


def test_each_trial_is_told_when_it_is_over():
    told = []
    found: Culprits = bisect(Machine(pick(1)), ALL[:4], on_trial=told.append)
    assert tuple(told) == found.log
    assert [trial.purpose for trial in told][:2] == ["everything on", "everything off"]
