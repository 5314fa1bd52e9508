"""What comes back: artifacts, the run report, the result.

Field names and types are those of OmniRT 0.1.0 (its payloads load unchanged); what Jumar adds
stands below a comment and never renames or retypes.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

ArtifactKind = Literal["image", "video", "audio", "text", "vectors"]
AttemptLevel = Literal["compile", "kernel_override", "eager"]

SCHEMA_VERSION = "1.0.0"


class Contract(BaseModel):
    """Base of all contracts: unknown fields are refused, assignments are checked."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class Artifact(Contract):
    """One file that a run made.

    `width` and `height` are pixels (0 where there are none); `duration_s` seconds,
    `sample_rate` Hz, `fps` frames per second, `size_bytes` and `sha256` those of the file.
    """

    kind: ArtifactKind
    path: str
    mime: str
    width: int = 0
    height: int = 0
    num_frames: int | None = None
    transport: Literal["path", "inline_bytes"] = "path"
    data_b64: str | None = None
    # Jumar's own:
    sha256: str | None = None
    size_bytes: int | None = None
    duration_s: float | None = None
    sample_rate: int | None = None
    fps: float | None = None
    text: str | None = None
    """The text of a text artifact, so that nobody has to open the file for it."""


class BackendAttempt(Contract):
    """One rung tried for one module, and why it was or was not taken."""

    level: AttemptLevel
    ok: bool
    reason: str | None = None
    selected: bool = False


class BackendTimelineEntry(Contract):
    """All rungs tried for one module, in order."""

    module: str
    attempts: list[BackendAttempt] = Field(default_factory=list)


class StageEventRecord(Contract):
    """Something that happened in a stage, at `timestamp_ms` since the Unix epoch."""

    event: str
    stage: str
    timestamp_ms: int
    data: dict[str, Any] = Field(default_factory=dict)


class ErrorDetail(Contract):
    """The error of a failed run: a stable `code`, what happened, what to do, the causes."""

    code: str
    message: str
    hint: str | None = None
    cause: str | None = None


class Parity(Contract):
    """Golden status of the model that answered."""

    status: Literal["matched", "failed", "unverified", "pending"]
    checked: int = 0
    matched: int = 0
    reference: str | None = None


class Operators(Contract):
    """Which implementation each operator was bound to, and what stood in quarantine."""

    bound: dict[str, str] = Field(default_factory=dict)
    quarantined: list[str] = Field(default_factory=list)


class RunReport(Contract):
    """What ran where, for how long, what fell back, what was measured.

    `timings` are milliseconds per stage, `memory` megabytes. A failed run has a report too:
    `error` is its message and `error_detail` the whole of it.
    """

    run_id: str
    task: str
    model: str
    backend: str
    job_id: str | None = None
    trace_id: str | None = None
    worker_id: str | None = None
    enqueued_at_ms: int | None = None
    queue_wait_ms: float | None = None
    execution_mode: str | None = None
    timings: dict[str, float] = Field(default_factory=dict)
    memory: dict[str, float] = Field(default_factory=dict)
    backend_timeline: list[BackendTimelineEntry] = Field(default_factory=list)
    config_resolved: dict[str, Any] = Field(default_factory=dict)
    artifacts: list[Artifact] = Field(default_factory=list)
    error: str | None = None
    latent_stats: dict[str, float] | None = None
    cache_hits: list[str] = Field(default_factory=list)
    device_placement: dict[str, str] = Field(default_factory=dict)
    batch_size: int = 1
    batch_group_id: str | None = None
    stream_events: list[StageEventRecord] = Field(default_factory=list)
    schema_version: str = SCHEMA_VERSION
    # Jumar's own:
    device: str | None = None
    fingerprint: dict[str, str] = Field(default_factory=dict)
    operators: Operators = Field(default_factory=Operators)
    parity: Parity | None = None
    error_detail: ErrorDetail | None = None
    warnings: list[str] = Field(default_factory=list)
    """Anything that was changed or left out on the way to the result, in words."""
    inputs: dict[str, Any] = Field(default_factory=dict)
    """What was asked for: texts as given, files by path."""
    config_origins: dict[str, str] = Field(default_factory=dict)
    """Where each value of `config_resolved` comes from: `default`, `preset fast`, …, `caller`."""

    @property
    def where(self) -> str:
        """The device as people are shown it: an emulated one says so."""
        emulated = self.fingerprint.get("device_class", "").endswith("-emulated")
        return (self.device or self.backend) + (" (emulated)" if emulated else "")

    @classmethod
    def from_dict(cls, payload: dict[str, Any]) -> RunReport:
        """Load a stored report; one without `schema_version` is older than those: 0.0.0."""
        return cls.model_validate({"schema_version": "0.0.0", **payload})


class GenerateResult(Contract):
    """The artifacts of a run and its report; `outputs` is empty where `metadata.error` is set."""

    outputs: list[Artifact] = Field(default_factory=list)
    metadata: RunReport

    @property
    def ok(self) -> bool:
        """True where the run came to its end."""
        return self.metadata.error is None
