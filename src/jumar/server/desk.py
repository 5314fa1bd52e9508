"""Where a caller's request becomes one that runs here, and a result one that callers may see."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from jumar import catalog
from jumar.catalog.manifest import Manifest
from jumar.contracts.errors import (
    DeadlineExceeded,
    JumarError,
    OutputFailed,
    UnknownModel,
    UnsupportedTask,
    did_you_mean,
    with_code,
)
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import ErrorDetail, GenerateResult
from jumar.engine.house import House
from jumar.engine.jobs import Job, Jobs, JobStore, now_ms
from jumar.engine.visit import Visit
from jumar.runtime.run import Listener
from jumar.server import outward
from jumar.server.contracts import GenerateBody, Transport
from jumar.server.inputs import Inbox, Screen
from jumar.server.machine import Machine
from jumar.server.metrics import Metrics
from jumar.server.settings import Settings
from jumar.server.shelf import Shelf
from jumar.server.tracing import opened

log = logging.getLogger(__name__)

SWEEP_S = 60.0
"""Between two looks for what is too old to be kept, in seconds."""
RECOVER_S = 5.0
"""Between two looks for jobs of other servers that have ended, in seconds."""


class Desk:
    """The parts of a server. Methods that are not `async` may read files: call them in a thread."""

    def __init__(self, house: House, store: JobStore, settings: Settings) -> None:
        self.house = house
        self.settings = settings
        self.inbox = Inbox(settings.data / "uploads")
        self.shelf = Shelf(settings.data / "artifacts")
        self.screen = Screen(self.inbox, settings.allow_roots)
        self.jobs = Jobs(store, visit=self.visit, ask=self.ask)
        self.machine = Machine()
        self.metrics = Metrics(house, self.jobs, self.machine)
        house.computed = self.metrics.computed
        self.tracing = opened(settings.otlp)
        self._stopping = threading.Event()

    @property
    def stopping(self) -> bool:
        """Whether nothing new is begun."""
        return self._stopping.is_set()

    def open(self, names: list[str]) -> None:
        """Begin to load the models that the operator named.

        Raises:
            UnknownModel: for the first that there is not.
        """
        for name in names:
            self.house.open(self.model(name))

    def model(self, name: str) -> str:
        """What a caller's name for a model stands for here."""
        return self.settings.aliases.get(name, name)

    def manifest(self, name: str) -> Manifest:
        """The manifest of a name. Raises UnknownModel, with the nearest that is served here."""
        try:
            return catalog.get(self.model(name))
        except UnknownModel as error:
            if self.house.only is not None:
                here = {*self.house.only, *self.settings.aliases, *self.settings.upstreams.named}
                error.hint = did_you_mean(name[:200], here)
            raise

    def unsupported(self, manifest: Manifest, task: str) -> UnsupportedTask:
        """That a model does not do a task, with those that are served here and do."""
        return catalog.unsupported(manifest, task, self.house.only)

    def request(self, body: GenerateBody, request_id: str) -> GenerateRequest:
        """The request as it will run: screened, on this server's device, with its deadline.

        Raises:
            JumarError: whatever is wrong with it.
        """
        manifest = self.manifest(body.model)
        config = dict(body.config)
        if body.deadline_ms is not None:
            seconds = body.deadline_ms / 1e3
            sooner = config.get("timeout", seconds)  # what is no number is refused below
            if isinstance(sooner, float | int) and not isinstance(sooner, bool):
                sooner = min(seconds, sooner)
            config["timeout"] = seconds if sooner is None else sooner
        config.setdefault("request_id", request_id)
        keys = [*body.inputs, *body.config]
        request = GenerateRequest.from_dict(
            {
                "task": body.task or catalog.task_for(manifest, keys, manifest.primary_task),
                "model": manifest.id,
                "backend": body.backend,
                "inputs": body.inputs,
                "config": config,
                "adapters": body.adapters and [one.model_dump() for one in body.adapters],
            }
        )
        admitted = self.house.admit(request)
        if request.task not in manifest.tasks:
            raise self.unsupported(manifest, request.task)
        screened = self.screen.screened(admitted, manifest.tasks[request.task])
        return self.house.plan(manifest.id).applied(screened, manifest)

    def visit(
        self, request: GenerateRequest, listener: Listener | None, cancel: threading.Event
    ) -> Visit:
        """The request, resolved and its inputs read. Its uploads go where it cannot be run."""
        try:
            visit = Visit(
                request, out=self.shelf.folder, overwrite=True, listener=listener, cancel=cancel
            )
        except BaseException as error:
            self.inbox.discard(request.inputs)
            if isinstance(error, JumarError):
                error.message = self.inbox.without_paths(error.message)
            raise
        ours = self.house.plan(request.model).config
        visit.resolved.origins.update({key: "server" for key in ours if key in visit.run.config})
        return visit

    def ask(self, visit: Visit) -> Future[GenerateResult]:
        """Let a visit wait for its answer; its artifacts are on the shelf before anybody hears."""
        inputs = visit.resolved.inputs
        try:
            asked = self.house.answer(visit)
        except BaseException:
            self._over(inputs)
            raise

        def answered(done: Future[GenerateResult]) -> None:
            self._over(inputs)
            if not done.cancelled() and done.exception() is None:
                self._kept(done.result())
                self._ran(done.result())

        asked.add_done_callback(answered)  # the first: whoever waits for the future comes later
        return asked

    def public(self, result: GenerateResult, transport: Transport = "path") -> dict[str, Any]:
        """A result as callers see it, as plain JSON data."""
        return self.shown(result, transport).model_dump(mode="json")

    def shown(self, result: GenerateResult, transport: Transport = "path") -> GenerateResult:
        """A result as callers see it: without the paths of this machine."""
        shown = self.shelf.public(result, transport)
        report = shown.metadata
        ours = {
            "inputs": self.inbox.without(report.inputs),
            "config_resolved": _masked(report.config_resolved, report.model, report.task),
        }
        metadata = outward.report(report.model_copy(update=ours))
        return GenerateResult(outputs=shown.outputs, metadata=metadata)

    def public_job(self, job: Job) -> dict[str, Any]:
        """A job as callers see it."""
        shown = job.model_dump(mode="json", exclude={"result"})
        asked = job.request
        shown["request"]["inputs"] = self.inbox.without(asked.inputs)
        shown["request"]["config"] = _masked(asked.config, asked.model, asked.task)
        if (detail := outward.detail(job.error_detail)) is not None:
            shown |= {"error": detail.message, "error_detail": detail.model_dump()}
        shown["result"] = None if job.result is None else self.public(job.result)
        return shown

    def recover(self) -> None:
        """Go on with the jobs of servers that have ended."""
        self.jobs.recover()

    def sweep(self) -> None:
        """Forget what is too old to be kept."""
        self.jobs.store.sweep(now_ms() - round(self.settings.keep_s * 1e3))
        self.shelf.sweep(self.settings.keep_s)

    def stop(self) -> None:
        """Refuse what comes and what waits; jobs that wait are for the next start."""
        self._stopping.set()
        self.jobs.stop()
        self.house.finish()

    def close(self, grace: float | None = None) -> None:
        """`stop`, let running work end, for `grace` seconds at most, and write everything down."""
        self.stop()
        self.house.close(grace)
        self.jobs.close()
        self.jobs.store.close()
        self.tracing.close()

    def _over(self, inputs: dict[str, Any]) -> None:
        if not self.stopping:  # a job that waits for the next start needs its uploads
            self.inbox.discard(inputs)

    def _ran(self, result: GenerateResult) -> None:
        report = result.metadata
        self.metrics.ran(result)
        if (failed := report.error_detail) is not None and _is_ours(failed):
            log.warning(
                "Run %s of %s failed: %s (%s)",
                report.run_id, report.model, failed.message, failed.cause or failed.code,
            )  # fmt: skip
        states = [
            state
            for served in self.house.models()
            if served.loaded.manifest.id == report.model
            for state in served.states.each()
        ]
        self.tracing.ran(report, min((one.since for one in states if one.answers), default=0.0))

    def _kept(self, result: GenerateResult) -> None:
        """Put the artifacts on the shelf; a run whose artifacts nobody can fetch has failed."""
        try:
            self.shelf.keep(result)
        except OSError as error:
            lost = OutputFailed(f"The artifacts cannot be kept: {error.strerror or error}.")
            report = result.metadata
            result.outputs, report.error = [], lost.message
            report.error_detail = ErrorDetail.model_validate(lost.detail())


def _masked(config: dict[str, Any], model: str, task: str) -> dict[str, Any]:
    """Config without the operator's folders, programs and addresses."""
    tasks = catalog.get(model).tasks if model in catalog.names() else {}
    known = tasks[task].config if task in tasks else {}  # a job of another server's may have others
    ours = {key for key in config if key in known and known[key].operator}
    return {k: "***" if k in ours and value is not None else value for k, value in config.items()}


def _is_ours(failed: ErrorDetail) -> bool:
    """Whether an error is this machine's, and no caller's."""
    kind = with_code(failed.code) or JumarError
    return kind.http_status >= 500 and kind is not DeadlineExceeded


def data_folder(named: str | None, place: str) -> Path:
    """`named`, else a folder of the user's for this port or socket; it is there then.

    Raises:
        OutputFailed: it cannot be made.
    """
    from platformdirs import user_data_path

    own = user_data_path("jumar") / "serve" / place
    folder = own if named is None else Path(named).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputFailed(f"There is no folder {folder}.", hint="--data-dir FOLDER") from error
    return folder
