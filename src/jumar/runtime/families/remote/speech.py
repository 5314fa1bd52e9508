"""One request to a service that speaks, and its whole answer as a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jumar.contracts.errors import UpstreamFailed
from jumar.runtime.families.base import Draft
from jumar.runtime.families.remote.audio import checked, raw
from jumar.runtime.families.remote.client import Body, Client
from jumar.runtime.families.remote.service import Service
from jumar.runtime.families.remote.voice import Voice
from jumar.runtime.families.waiting import until_done
from jumar.runtime.run import Run

MAX_BYTES = 1 << 30
"""Where an answer is given up: three hours of 16-bit sound at 48 kHz."""


def body_of(options: Mapping[str, Any], values: Mapping[str, Any]) -> Body:
    """The request that a manifest's `options` make of inputs and config; None is left out."""
    known = {field: values.get(name) for field, name in options["fields"].items()}
    fields = {
        field: value.inline if isinstance(value, Voice) else value
        for field, value in known.items()
        if value is not None
    }
    if "files" not in options:
        return Body(fields)
    files = {field: values[name] for field, name in options["files"].items() if values.get(name)}
    return Body(fields, {field: (one.name, one.data, one.mime) for field, one in files.items()})


class Speech:
    """A service as a model. Connections live as long as a request."""

    def __init__(self, service: Service, options: Mapping[str, Any]) -> None:
        self._service = service
        self._options = options

    def generate(self, run: Run) -> list[Draft]:
        """Ask, collect, listen.

        Raises:
            InvalidRequest, UpstreamFailed: as `Client.stream`; also where it is no sound.
            Cancelled, DeadlineExceeded: the service is told by the connection's end.
        """
        from anyio.from_thread import start_blocking_portal

        service = replace(self._service, silence_s=run.config["idle_timeout"])
        body = body_of(self._options, {**run.inputs, **run.config})
        data, told = bytearray(), list[str]()

        def received() -> None:
            run.step(len(data), kept=False, unit="bytes")

        with run.stage("generate"):
            try:
                with start_blocking_portal() as loop:
                    asked = loop.start_task_soon(self._ask, service, body, data, told.append)
                    media_type = until_done(asked, received)
            finally:
                for sentence in told:
                    run.warn(sentence)
        with run.stage("check"):
            return [_draft(bytes(data), media_type, run.config, service.url)]

    def close(self) -> None:
        """Nothing is held."""

    async def _ask(self, service: Service, body: Body, data: bytearray, told: Any) -> str:
        """Fill `data` with the answer; its media type."""
        async with (
            Client(service, told) as client,
            client.stream(self._options["route"], body) as answer,
        ):
            async for chunk in answer:
                data.extend(chunk)
                if len(data) > MAX_BYTES:
                    raise UpstreamFailed(f"{service.url} answered over {MAX_BYTES >> 30} GiB.")
            return answer.media_type


def _draft(data: bytes, media_type: str, config: Mapping[str, Any], url: str) -> Draft:
    name = config["response_format"]
    if name == "pcm":
        return raw(data, media_type, config["sample_rate"], url=url)
    return checked(data, name, url=url)
