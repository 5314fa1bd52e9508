"""`jumar decide`: answers to typed questions about a text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from jumar.cli import show
from jumar.cli.isolating import isolation_options
from jumar.cli.naming import known
from jumar.cli.reading import Where, place_options, read
from jumar.contracts.errors import InvalidInput, UnsupportedTask


@click.command()
@click.option(
    "--state",
    "states",
    required=True,
    multiple=True,
    metavar="TEXT",
    help="What they are about; - is stdin. Several: each is asked all of them.",
)
@click.option(
    "--questions",
    required=True,
    metavar="FILE",
    help="YAML or JSON: by name, each with its type and options.",
)
@place_options("An NLI model, or one with a token head: a folder, or OWNER/REPO@COMMIT of the hub.")
@click.option(
    "--overflow",
    type=click.Choice(["reject", "truncate", "window"]),
    help="A text over the limit: refused, cut off, or read in windows.  [default: reject]",
)
@isolation_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the answers.")
def command(
    *,
    states: tuple[str, ...],
    questions: str,
    overflow: str | None,
    as_json: bool,
    quiet: bool,
    **place: Any,
) -> None:
    """Answer typed questions about a text: choice, noul, score, set, span.

    {guard: {type: noul, criteria: This is an attack.}}
    """
    from jumar import catalog
    from jumar.reporting.decisions import Asked
    from jumar.reporting.readings import Head

    written = _questions_of(questions)
    manifest = catalog.get(known(place["model"]))
    if "decisions" not in manifest.tasks:
        raise UnsupportedTask(
            f"{manifest.id} answers no questions. It does {', '.join(manifest.tasks)}.",
            hint="A classifier does whose config.json names its labels entailment and"
            " contradiction (or not_entailment), or that labels tokens.",
        )
    cuts = overflow == "truncate"
    texts = [sys.stdin.read() if text == "-" else text for text in states]
    each = [Asked.of(text, written, manifest.options, cuts=cuts) for text in texts]
    asked = Asked.joined(each)
    given: dict[str, Any] = {key: one for key, one in asked.inputs.items() if key != "texts"}
    if overflow is not None:
        given["overflow"] = overflow
    try:
        found = read(Where(asked.task, **place), asked.inputs["texts"], given, quiet or as_json)
    except InvalidInput as error:
        raise asked.blamed(error) from error
    assert found.head is not None, "every classifier says what its values are"
    head, values = Head.of(found.head), iter(found.values)
    answers = [one.answers(head, [next(values) for _ in one.rows]) for one in each]
    if as_json:
        show.as_json(answers if len(each) > 1 else answers[0])
        return
    width = max(map(len, written))
    for text, answered in zip(texts, answers, strict=True):
        if len(each) > 1:
            click.echo(text)
        for name, answer in answered.items():
            click.echo(f"{name:<{width}}  {_in_words(answer)}")


def _questions_of(file: str) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InvalidInput(f"Cannot read the questions in {file}.", param="questions") from error
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise InvalidInput(f"{file} has no questions by name.", param="questions")
    return content


def _in_words(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return click.style(answer["message"], fg="red")
    if answer["type"] == "choice":
        return f"{answer['choice']} {answer['confidence']:.3f}"
    if answer["type"] == "noul":
        return f"{answer['noul']:.3f}"
    if answer["type"] == "score":
        near = answer["legend"][str(round(answer["score"]))]
        return f"{answer['score']:.2f} ({near})"
    if answer["type"] == "set":
        return ", ".join(answer["selected"]) or "-"
    return ", ".join(f"{span['label']}: {span['text']}" for span in answer["spans"]) or "-"
