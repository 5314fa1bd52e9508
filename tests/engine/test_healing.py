"""Which failures in a server are looked into: what happens twice, and once only."""

from __future__ import annotations

from jumar import catalog
from jumar.contracts.errors import JumarError, RunFailed
from jumar.contracts.requests import text2audio
from jumar.engine.endings import Ended, LastWords, Stood
from jumar.engine.healing import Suspicion, from_outside
from jumar.runtime.run import Run


def run() -> Run:
    return Run(catalog.resolve(text2audio("toy", "a", backend="cpu")), {})


def failure(*causes: Exception) -> JumarError:
    error = RunFailed("The worker ended during encode.")
    link: BaseException = error
    for cause in causes:
        link.__cause__ = cause
        link = cause
    return error


def aborted(where: str = "modeling_bert.py:332 in forward") -> JumarError:
    return failure(Ended("It was killed by SIGABRT (Aborted)."), Stood(where))


def killed() -> JumarError:
    return failure(Ended("It was killed by SIGKILL (Killed)."), LastWords("Loading weights: 100 %"))


def test_the_first_failure_is_not_looked_into_and_the_second_in_the_same_place_is() -> None:
    suspicion = Suspicion()
    assert not suspicion.second(aborted(), run())
    assert suspicion.second(aborted(), run()), "another request, the same place"


def test_what_has_been_looked_into_is_not_looked_into_again() -> None:
    suspicion, seen = Suspicion(), run()
    asked = [suspicion.second(aborted(), seen) for _ in range(4)]
    assert asked == [False, True, False, False], "whatever callers send"


def test_numbers_in_what_a_device_says_make_no_other_place() -> None:
    suspicion = Suspicion()
    first, second = (
        failure(RuntimeError(f"aclnnGelu failed for 0x7f{n}, error 561002")) for n in (1, 2)
    )
    assert not suspicion.second(first, run())
    assert suspicion.second(second, run())


def test_other_places_are_other_failures() -> None:
    suspicion = Suspicion()
    assert not suspicion.second(aborted("a.py:1 in forward"), run())
    assert not suspicion.second(aborted("b.py:1 in forward"), run())


def test_workers_that_are_killed_from_outside_accuse_nobody() -> None:
    suspicion = Suspicion()
    assert not any(suspicion.second(killed(), run()) for _ in range(5))


def test_who_is_killed_stood_nowhere_and_who_aborts_did() -> None:
    assert from_outside(killed())
    assert not from_outside(aborted())
    assert not from_outside(failure(RuntimeError("aclnnGelu failed")))


def test_a_request_whose_worker_is_killed_twice_is_looked_into() -> None:
    suspicion, one = Suspicion(), run()
    assert not suspicion.second(killed(), one)
    assert suspicion.second(killed(), one)


def test_no_more_places_are_remembered_than_a_bound() -> None:
    suspicion = Suspicion()
    for n in range(2 * Suspicion.KEPT):
        suspicion.second(aborted(f"{'x' * n}.py in forward"), run())
    assert len(suspicion._places) == Suspicion.KEPT
