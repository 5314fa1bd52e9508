"""What a report looks like: as a table, as a page, as a trace.

    path, report = find("latest", folder)[0]
    console.print(as_table(report))
    html = as_html([(path, report)])
    part = as_article(report, exhibits)      # of somebody else's page
    json.dumps(as_trace(report))

The parts load on first use; only contracts stand below them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumar.reporting.files import find, read
    from jumar.reporting.html import as_article, as_html
    from jumar.reporting.table import as_table
    from jumar.reporting.trace import as_trace

_WHERE = {
    "as_article": "html",
    "as_html": "html",
    "as_table": "table",
    "as_trace": "trace",
    "find": "files",
    "read": "files",
}

__all__ = ["as_article", "as_html", "as_table", "as_trace", "find", "read"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'jumar.reporting' has no attribute {name!r}")
    return getattr(import_module(f"jumar.reporting.{_WHERE[name]}"), name)
