"""Write what is generated in docs/: commands, errors, models, routes. `--check` only compares.

make docs
python tools/make_docs.py --check
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from jumar import catalog
from jumar.cli.app import COMMANDS, jumar
from jumar.contracts import errors

DOCS = Path(__file__).parents[1] / "docs"
NOTE = "<!-- Written by `make docs`; edit its source, not this page. -->\n"


def main() -> int:
    """Write the pages, or say which are out of step."""
    pages = {
        "commands.md": commands(),
        "errors.md": error_tree(),
        "models.md": models(),
        "server-shapes.md": shapes(),
        "server-watching.md": metrics(),
    }
    if "--check" not in sys.argv:
        for name, text in pages.items():
            (DOCS / name).write_text(text, encoding="utf-8")
        return 0
    stale = [
        name
        for name, text in pages.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != text
    ]
    if stale:
        print(f"Out of step: {', '.join(stale)}. Run: make docs")
    return 1 if stale else 0


def commands() -> str:
    """The help of every command, as the terminal shows it."""
    parts = [NOTE, "# Commands\n", EXIT_CODES, helped("jumar", jumar)]
    group = click.Context(jumar, info_name="jumar")
    for name in COMMANDS:
        command = jumar.get_command(group, name)
        assert command is not None, name
        parts.append(helped(f"jumar {name}", command))
        if isinstance(command, click.Group):
            parts += [
                helped(f"jumar {name} {sub}", command.commands[sub])
                for sub in sorted(command.commands)
            ]
    return "\n".join(parts)


def shapes() -> str:
    """The page of shapes, with the server's table of routes between its two marks."""
    from jumar.server.routes import ROUTES, SOCKETS

    rows = [
        f"| `{row.method} {row.path}` | {row.summary} | {_taken(row)} | {_given(row)} |"
        for row in ROUTES
    ]
    rows += [f"| `WS {path}` | Hear a job, and cancel it. |  | events |" for path in SOCKETS]
    table = "\n".join(["| route | what | body | answer |", "|---|---|---|---|", *rows])
    return _between("server-shapes.md", "routes", table)


def metrics() -> str:
    """The page on watching a server, with the table of metrics between its two marks."""
    from jumar.server.metrics import METRICS

    rows = [
        f"| `{name}` | {row.kind} | {', '.join(row.labels)} | {row.what} |"
        for name, row in METRICS.items()
    ]
    table = "\n".join(["| metric | kind | labels | what |", "|---|---|---|---|", *rows])
    return _between("server-watching.md", "metrics", table)


def _between(page: str, mark: str, table: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->\n"
    return text.partition(begin)[0] + begin + table + "\n" + end + text.partition(end)[2]


def _fields(contract: Any) -> str:
    """The fields of a body; those that may be left out with a question mark."""
    if contract is None:
        return ""
    fields = contract.model_fields.items()
    return f"`{', '.join(name + '?' * (not one.is_required()) for name, one in fields)}`"


def _taken(row: Any) -> str:
    """The fields of the body; of the form where there is no other."""
    if row.takes is None and row.form is not None:
        return f"form: {_fields(row.form)}"
    return _fields(row.takes)


def _given(row: Any) -> str:
    return f"`{row.gives.__name__ if row.gives else ', '.join(row.media)}`"


def helped(words: str, command: click.Command) -> str:
    """One command's section."""
    context = click.Context(command, info_name=words, terminal_width=100, max_content_width=100)
    return f"## `{words}`\n\n```text\n{command.get_help(context).rstrip()}\n```\n"


EXIT_CODES = """\
`omnirt` and `vllm-srun` are the same program: the command lines of the documents that use those
names work as they stand.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the run failed |
| 2 | the request is wrong |
| 3 | this machine lacks something: a device, memory, a package, weights |
| 4 | the result could not be written |
| 5 | try again later |
| 130 | stopped by the caller |
"""


def error_tree() -> str:
    """The tree at the top of `contracts/errors.py`."""
    doc = (errors.__doc__ or "").partition("\n\n")[2]
    tree, _, rest = doc.partition("\n\n")
    return "\n".join(
        [
            NOTE,
            "# Errors\n",
            "The same on every face: CLI, Python (`except jumar.JumarError`), HTTP.\n",
            f"```text\n{tree}\n```\n",
            rest.partition("\n\nThis module")[0] + "\n",
            "Every HTTP face answers an error with",
            '`{"error": {"code", "message", "type", "param", "hint"}}`; a failed run\'s report has',
            "`error_detail: {code, message, hint, cause}`.\n",
        ]
    )


def models() -> str:
    """All models, by tier."""
    parts = [NOTE, "# Models\n", STATUS_WORDS]
    for tier in ("core", "adjacent", "experimental"):
        parts += [
            f"## {tier}\n",
            "| model | tasks | cpu | cuda | npu | GiB | |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in catalog.rows(tier):
            other = "remote" if "remote" in row.backends else "unknown"
            status = " | ".join(row.backends.get(kind, other) for kind in ("cpu", "cuda", "npu"))
            names = ", ".join(f"`{name}`" for name in (row.id, *row.aliases))
            tasks = ", ".join(row.tasks)
            parts.append(f"| {names} | {tasks} | {status} | {row.memory_gb:g} | {row.summary} |")
        parts.append("")
    return "\n".join(parts)


STATUS_WORDS = """\
**validated**: proven on that hardware; **emulated**: proven on Jumar's emulated device, never on
the hardware; **wired**: the code is there and unproven; **unknown**: nobody looked; **remote**: a
server runs it.
"""


if __name__ == "__main__":
    sys.exit(main())
