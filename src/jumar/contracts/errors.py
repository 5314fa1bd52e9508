"""Every error a caller can meet, as one tree. CLI, Python and HTTP show the same fields.

JumarError                      internal_error       HTTP 500   exit 1
├── InvalidRequest              invalid_request          400        2
│   ├── UnknownKey              unknown_key              400        2
│   ├── InvalidValue            invalid_value            400        2
│   ├── InvalidInput            invalid_input            400        2
│   │   └── InputTooLong        max_length_exceeded      400        2
│   ├── InvalidQuestion         invalid_question         400        2
│   ├── UnknownModel            model_not_found          404        2
│   ├── NotFound                not_found                404        2
│   ├── UnsupportedTask         unsupported_surface      422        2
│   └── RequestTooLarge         request_too_large        413        2
├── NotPermitted                not_permitted            403        2
│   └── Unauthenticated         invalid_api_key          401        2
├── DeviceUnavailable           device_unavailable       503        3
│   └── InsufficientMemory      insufficient_memory      503        3
├── DependencyMissing           dependency_missing       501        3
├── OperatorUnavailable         operator_unavailable     503        3
├── WeightsUnavailable          weights_unavailable      503        3
│   └── DigestMismatch          digest_mismatch          503        3
├── OutputFailed                output_failed            507        4
├── RunFailed                   run_failed               500        1
│   ├── InvalidModelOutput      invalid_model_output     500        1
│   └── ParityFailed            parity_failed            503        1
├── UpstreamFailed              upstream_failed          502        1
├── NotReady                    not_ready                503        5
├── Overloaded                  overloaded               429        5
├── DeadlineExceeded            deadline_exceeded        504        5
└── Cancelled                   cancelled                499      130

Exit codes: 0 done, 1 the run failed, 2 the request is wrong, 3 this machine lacks something,
4 the result could not be written, 5 try again later, 130 stopped by the caller.

This module imports nothing outside the standard library, so that every layer can raise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar


class JumarError(Exception):
    """Base of all errors: `message` says what happened, `hint` what to do, `param` which field.

    The cause is the ordinary ``__cause__`` of ``raise … from …``; `detail` shows it as text.
    """

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.param = param

    @property
    def type(self) -> str:
        """The OpenAI error type of this status: who has to change something."""
        if self.http_status == 429:
            return "rate_limit_error"
        return "invalid_request_error" if self.http_status < 500 else "server_error"

    @property
    def cause(self) -> str | None:
        """The chain of causes, outermost first, as ``Type: text`` joined by ``<-``."""
        links: list[str] = []
        link = self.__cause__
        while link is not None:
            links.append(f"{type(link).__name__}: {link}")
            link = link.__cause__
        return " <- ".join(links) or None

    def detail(self) -> dict[str, str | None]:
        """The four fields of `RunReport.error_detail`."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "cause": self.cause,
        }

    def envelope(self) -> dict[str, Any]:
        """The body that every HTTP face answers with."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "hint": self.hint,
            }
        }


class InvalidRequest(JumarError):
    """The request cannot be run as it stands."""

    code, http_status, exit_code = "invalid_request", 400, 2


class UnknownKey(InvalidRequest):
    """An input, config key or field that this model does not have."""

    code = "unknown_key"


class InvalidValue(InvalidRequest):
    """A value of the wrong type, out of range, or not among the choices."""

    code = "invalid_value"


class InvalidInput(InvalidRequest):
    """A prompt, picture or sound that cannot be used: missing, unreadable, empty."""

    code = "invalid_input"


class InputTooLong(InvalidInput):
    """A text that would have to be read whole, and is longer than the model reads."""

    code = "max_length_exceeded"


class InvalidQuestion(InvalidRequest):
    """A question about a text that cannot be asked, or not of this model."""

    code = "invalid_question"


class UnknownModel(InvalidRequest):
    """No manifest has this id or alias."""

    code, http_status = "model_not_found", 404


class NotFound(InvalidRequest):
    """No job, artifact or route has this name."""

    code, http_status = "not_found", 404


class UnsupportedTask(InvalidRequest):
    """The model exists and does something else."""

    code, http_status = "unsupported_surface", 422


class RequestTooLarge(InvalidRequest):
    """A body, batch or token count over the limit."""

    code, http_status = "request_too_large", 413


class NotPermitted(JumarError):
    """The operator does not allow this path, host, model tier or caller."""

    code, http_status, exit_code = "not_permitted", 403, 2


class Unauthenticated(NotPermitted):
    """The caller showed no key, or one that is not known."""

    code, http_status = "invalid_api_key", 401


class DeviceUnavailable(JumarError):
    """The device that was asked for is not here, not allowed or not working."""

    code, http_status, exit_code = "device_unavailable", 503, 3


class InsufficientMemory(DeviceUnavailable):
    """The device exists and has too little free memory."""

    code = "insufficient_memory"


class DependencyMissing(JumarError):
    """A Python package or program that this model needs is not installed."""

    code, http_status, exit_code = "dependency_missing", 501, 3


class OperatorUnavailable(JumarError):
    """Policy and quarantine leave an operator without an implementation on this machine."""

    code, http_status, exit_code = "operator_unavailable", 503, 3


class WeightsUnavailable(JumarError):
    """The weights could not be found or fetched."""

    code, http_status, exit_code = "weights_unavailable", 503, 3


class DigestMismatch(WeightsUnavailable):
    """A fetched file is not the file that the manifest names."""

    code = "digest_mismatch"


class OutputFailed(JumarError):
    """An artifact or a report could not be written: folder not writable, disk full, name taken."""

    code, http_status, exit_code = "output_failed", 507, 4


class RunFailed(JumarError):
    """The model raised while it ran."""

    code = "run_failed"


class InvalidModelOutput(RunFailed):
    """The model answered with NaN, infinity, or nothing at all."""

    code = "invalid_model_output"


class ParityFailed(RunFailed):
    """Golden answers do not match on this device."""

    code, http_status = "parity_failed", 503


class UpstreamFailed(JumarError):
    """A service that Jumar forwards to refused, failed, or answered something else."""

    code, http_status = "upstream_failed", 502


class NotReady(JumarError):
    """The model is still loading or proving itself."""

    code, http_status, exit_code = "not_ready", 503, 5


class Overloaded(JumarError):
    """The queue is full. `retry_after` is in seconds."""

    code, http_status, exit_code = "overloaded", 429, 5

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        param: str | None = None,
        retry_after: float = 1.0,
    ) -> None:
        super().__init__(message, hint=hint, param=param)
        self.retry_after = retry_after


class DeadlineExceeded(JumarError):
    """The deadline of the request passed before it was done."""

    code, http_status, exit_code = "deadline_exceeded", 504, 5


class Cancelled(JumarError):
    """The caller stopped the run."""

    code, http_status, exit_code = "cancelled", 499, 130


def with_code(code: str | None) -> type[JumarError] | None:
    """The kind of error that has this code."""
    waiting = [JumarError]
    for kind in waiting:
        if kind.code == code:
            return kind
        waiting += kind.__subclasses__()
    return None


def nearest(word: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """The names in `known` that `word` may have meant, best first, at most `limit`.

    Compares without case, and as a prefix or part too ("minilm" finds "all-minilm-l6-v2").
    """
    from difflib import get_close_matches

    by_folded = {name.casefold(): name for name in known}
    folded = word.casefold()
    close = get_close_matches(folded, by_folded, n=limit, cutoff=0.6)
    if len(folded) >= 3:
        close += [name for name in sorted(by_folded) if folded in name and name not in close]
    return [by_folded[name] for name in close[:limit]]


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint sentence naming the nearest valid choices, or all of them where none is near."""
    names = sorted(set(known))
    close = nearest(word, names)
    if close:
        return "Did you mean " + " or ".join(repr(name) for name in close) + "?"
    if not names:
        return None
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"Valid: {shown}."
