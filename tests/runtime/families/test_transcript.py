"""What was said, written as text, json, srt and vtt."""

from __future__ import annotations

import json

import pytest
from embedded import content

from jumar.runtime.families.transcription.transcript import (
    FORMATS,
    Segment,
    Transcript,
    Word,
    draft,
)


def said(*words: tuple[float, float, str]) -> Segment:
    row = tuple(Word(start, end, word, 0.9) for start, end, word in words)
    return Segment(row[0].start, row[-1].end, " ".join(word.word for word in row), row)


TALK = Transcript(
    "en",
    3725.5,
    (
        said(
            (0.5, 0.9, "Good"), (0.9, 1.5, "morning."), (1.6, 2.0, "Tea"), (2.0, 2.4, "& <milk>?")
        ),
        said(
            (3723.25, 3724.0, "Bye."),
        ),
    ),
)


def written(name: str, transcript: Transcript = TALK) -> str:
    return content(draft(transcript, name)).decode()


def test_text_is_the_words_and_nothing_else() -> None:
    assert written("text") == "Good morning. Tea & <milk>? Bye.\n"


def test_json_has_segments_and_words_with_times() -> None:
    read = json.loads(written("json"))
    assert read["text"] == TALK.text
    assert read["duration"] == 3725.5
    assert read["segments"][1] == {
        "start": 3723.25,
        "end": 3724.0,
        "text": "Bye.",
        "words": [{"start": 3723.25, "end": 3724.0, "word": "Bye.", "probability": 0.9}],
    }


def test_json_has_no_words_where_nobody_asked_for_them() -> None:
    bare = Transcript("en", 2.0, (Segment(0.0, 2.0, "Hello."),))
    assert json.loads(written("json", bare))["segments"] == [
        {"start": 0.0, "end": 2.0, "text": "Hello."}
    ]


def test_srt_numbers_its_captions_and_writes_hours() -> None:
    assert written("srt") == (
        "1\n00:00:00,500 --> 00:00:02,400\nGood morning. Tea & <milk>?\n\n"
        "2\n01:02:03,250 --> 01:02:04,000\nBye.\n"
    )


def test_vtt_escapes_what_would_be_mark_up() -> None:
    assert written("vtt") == (
        "WEBVTT\n\n00:00:00.500 --> 00:00:02.400\nGood morning. Tea &amp; &lt;milk&gt;?\n\n"
        "01:02:03.250 --> 01:02:04.000\nBye.\n"
    )


def test_captions_break_after_a_full_stop_and_keep_every_word() -> None:
    captions = TALK.captions()
    assert [segment.text for segment in captions.segments] == [
        "Good morning.",
        "Tea & <milk>?",
        "Bye.",
    ]
    assert captions.text == TALK.text
    assert captions.segments[1].start == 1.6


def test_captions_break_at_a_pause_and_before_they_get_too_long() -> None:
    pause = Transcript("en", 9.0, (said((0, 1, "one"), (1, 2, "two"), (4, 5, "three")),))
    assert [each.text for each in pause.captions().segments] == ["one two", "three"]
    steady = [(i * 0.5, i * 0.5 + 0.5, "seven") for i in range(60)]
    for segment in Transcript("en", 30.0, (said(*steady),)).captions().segments:
        assert segment.end - segment.start <= 7.0
        assert len(segment.text) <= 84


def test_words_of_a_language_without_spaces_are_joined_without() -> None:
    segment = Segment(0, 2, "你好。", (Word(0, 1, "你", 0.9), Word(1, 2, "好。", 0.9)))
    assert Transcript("zh", 2.0, (segment,)).captions().text == "你好。"


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_transcript_is_a_valid_file(name: str) -> None:
    empty = written(name, Transcript("en", 5.0, ()))
    wanted = {"text": "", "srt": "", "vtt": "WEBVTT\n"}
    if name == "json":
        assert json.loads(empty)["segments"] == []
    else:
        assert empty == wanted[name]


def test_a_draft_carries_its_text_whatever_the_format() -> None:
    for name, (mime, suffix, _) in FORMATS.items():
        made = draft(TALK, name)
        assert (made.kind, made.mime, made.suffix, made.text) == ("text", mime, suffix, TALK.text)
