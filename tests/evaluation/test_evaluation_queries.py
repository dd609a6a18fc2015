"""Queries as people type them: true of the scenes, well formed, the same every time; and from files."""

import itertools
import json
import re
from collections import Counter

import numpy as np
import pytest

from supclap.data.scenes import EVENTS
from supclap.data.scenes.asked import ASKED, COMMANDS, QUESTIONS, asked
from supclap.data.scenes.compose import scripts
from supclap.data.scenes.grammar.eng import RECORDED, WORDS
from supclap.evaluation import queries, query_files
from supclap.evaluation.queries import Query
from supclap.schema import Caption, Clip, UserError


@pytest.fixture(scope="module")
def truths():
    return {script.id: script.truth for script in scripts(200, 0, "test", languages=["eng"])}


@pytest.fixture(scope="module")
def every(truths):
    return queries.queries(truths)


def test_every_kind_and_the_same_every_time(truths, every):
    assert set(Counter(query.kind for query in every)) == set(queries.KINDS)
    assert min(Counter(query.kind for query in every).values()) > 190
    assert queries.queries(truths) == every
    assert queries.queries(truths, kinds=["tags"]) == [query for query in every if query.kind == "tags"]
    assert queries.queries(truths, seed=1) != every
    shuffled = dict(reversed(truths.items()))
    again = {(query.kind, query.clip): query for query in queries.queries(shuffled)}
    assert all(dict(again[q.kind, q.clip].relevance) == dict(q.relevance) for q in every), "the order of the table"


def heard(truths, name):
    return set(truths[name].labels())


def read(text, by):
    """The sounds that a text names, longest names first, by a brute search of the table."""
    found, rest = [], text.lower()
    for label in sorted(EVENTS, key=lambda label: -len(getattr(asked(label), by))):
        said = getattr(asked(label), by).lower()
        if re.search(rf"\b{re.escape(said)}\b", rest):
            rest = re.sub(rf"\b{re.escape(said)}\b", "#", rest)
            found.append(label)
    return set(found)


def test_relevance_is_the_share_of_the_sounds_that_the_text_names(truths, every):
    """Read back from the words, for every clip of the table."""
    said = {"question": "doing", "command": "doing", "tags": "tag", "paraphrase": "reworded"}
    for query in every:
        if query.kind in said:
            wanted = read(query.text, said[query.kind])
            assert wanted and wanted <= heard(truths, query.clip), query
            expected = {name: len(wanted & heard(truths, name)) / len(wanted) for name in truths}
            assert query.relevance == pytest.approx({name: gain for name, gain in expected.items() if gain})
            assert query.relevance[query.clip] == 1.0 and not query.distractors


def test_what_is_excluded_is_really_absent(truths, every):
    for query in every:
        if query.kind == "exclusion":
            by = "doing" if read(query.text, "doing") else "tag"
            here, gone = re.split(r",? (?:but |and )?(?:without|no|not) ", query.text)
            wanted, (excluded,) = read(here, by), read(gone, by)
            assert excluded not in heard(truths, query.clip) and wanted <= heard(truths, query.clip)
            for name in truths:
                share = len(wanted & heard(truths, name)) / len(wanted)
                assert query.relevance.get(name, 0) == (0 if excluded in heard(truths, name) else pytest.approx(share))
            (hard,) = query.distractors
            assert wanted | {excluded} <= heard(truths, hard)


def test_composed_queries_add_a_sound(truths, every):
    for query in every:
        if query.kind == "composed":
            (extra,) = read(query.text, "doing")
            mine = heard(truths, query.sound)
            assert extra not in mine and query.sound not in query.relevance and query.clip == query.sound
            for name, gain in query.relevance.items():
                assert extra in heard(truths, name) and gain == pytest.approx(
                    len(mine & heard(truths, name)) / len(mine)
                )
            assert all(extra not in heard(truths, name) and heard(truths, name) & mine for name in query.distractors)


def test_the_same_sounds_are_asked_for_in_every_way(every):
    alike = [kind for kind in queries.KINDS if kind not in ("exclusion", "composed")]
    for _, group in itertools.groupby((query for query in every if query.kind in alike), lambda query: query.clip):
        assert len({tuple(sorted(query.relevance.items())) for query in group}) == 1


def test_grammar(every):
    for query in every:
        text = query.text
        assert text == " ".join(text.split()) and "{" not in text and "_" not in text, text
        assert not re.search(r"\b(a|A) [aeiou]|\b(an|An) [^aeiou]|\bno (a|an|the|someone)\b|\b(\w+) \2\b", text), text
        if query.kind == "question":
            assert text[0].isupper() and text.endswith("?")
        if query.kind in ("command", "caption", "paraphrase"):
            assert text[0].isupper() and not text.endswith((".", "?"))
        if query.kind == "tags":
            assert 1 <= len(text.split()) <= 3
    lengths = [len(query.text.split()) for query in every if query.kind == "tags"]
    assert 1.5 < np.mean(lengths) < 2.5, "searchers write 1.8 words"


def test_the_table_has_every_sound_once(every):
    assert set(ASKED) == set(WORDS) | set(RECORDED)
    us8k = "air_conditioner car_horn children_playing dog_bark drilling engine_idling gun_shot jackhammer siren"
    us8k += " street_music"
    both = "dog cat cow frog rain wind siren car_horn engine snoring clapping footsteps".split()
    for names in (list(WORDS), us8k.split(), [*both, *(set(RECORDED) - set(us8k.split()))]):
        for field in ("tag", "doing", "reworded"):
            assert len({getattr(asked(name), field) for name in names}) == len(names), field
    for one in ASKED.values():
        assert 1 <= len(one.tag.split()) <= 2 and one.doing.strip() and one.reworded.strip()
    for name, one in ASKED.items():
        content = {word for word in re.findall(r"\w+", one.reworded.lower()) if len(word) > 3}
        plain = {word for word in re.findall(r"\w+", f"{one.doing} {one.tag} {name}".lower()) if len(word) > 3}
        assert not content & plain - {"tool", "someone"}, f"{name}: a paraphrase uses other words"
    assert asked("Steam_Whistle 2").doing == "the sound of steam whistle 2", "a label of one's own"
    assert all(frame.count("{}") == 1 for frame in QUESTIONS + COMMANDS)


def test_scenes_that_allow_no_exclusion(truths):
    lonely = dict(list(truths.items())[:1])
    found = queries.queries(lonely)
    assert {query.kind for query in found} == set(queries.KINDS) - {"exclusion", "composed"}
    with pytest.raises(UserError, match="kind='song'"):
        queries.queries(truths, kinds=["song"])


def test_files_give_back_what_was_written(truths, every, tmp_path):
    clips = [Clip(name, f"{name}.flac") for name in truths]
    path = query_files.write(every, tmp_path / "queries.jsonl")
    found = query_files.read(path, clips)
    assert found.queries == every and found.notes == ()
    fewer = query_files.read(path, clips[:100])
    assert 0 < len(fewer.queries) < len(every) and "not in the table" in " ".join(fewer.notes)


def test_a_table_by_hand(tmp_path):
    clips = [Clip(name, f"sounds/{name}.wav") for name in "abc"]
    (tmp_path / "q.csv").write_text(
        "query,type,clip_id,relevance,hard_negative,language\nrain,tags,a.wav,1,,\nrain,tags,b,0.5,,\n"
        "rain without thunder,exclusion,a;b,1;0.5,c,\nla pluie,tags,a,,,fr\n"
    )
    rain, without, french = query_files.read(tmp_path / "q.csv", clips).queries
    assert rain == Query("tags", "rain", "a", {"a": 1.0, "b": 0.5})
    assert without.distractors == ("c",) and without.relevance == {"a": 1.0, "b": 0.5}
    assert french.language == "fra" and french.relevance == {"a": 1.0}
    for content, line in (
        ("query,type,clip_id\nrain,,a\n", "column 'type' is missing or empty"),
        ("query,type,clip_id,relevance\nrain,tags,a;b,1\n", "2 clips and 1 numbers of relevance"),
        ("query,type,clip_id,relevance\nrain,tags,a,much\n", "relevance='much' is no number"),
        ("query,type,clip_id\nrain,tags,z\n", "none of 1 rows asks for one of the 3 clips"),
        ("", "the table is empty"),
    ):
        (tmp_path / "bad.csv").write_text(content)
        with pytest.raises(UserError, match=line):
            query_files.read(tmp_path / "bad.csv", clips)


def published(**fields):
    row = {"audio_id": "Rain on Roof.wav", "dataset": "clotho", "dataset_slug": "clotho_evaluation"}
    row |= {"metadata": {}, "source_model": "m", "regen_model": "m", "original_captions": ["Rain falls on a roof."]}
    return json.dumps(row | fields) + "\n"


def test_the_published_form(tmp_path):
    """User-Intent Queries: the hard negative is named by its clip's captions alone."""
    clips = [
        Clip("Rain on Roof.wav", "Rain on Roof.wav", captions=(Caption("Rain falls on a roof."),)),
        Clip("storm.wav", "storm.wav", captions=(Caption("Thunder rolls."), Caption("A storm with thunder"))),
        Clip("bell.wav", "bell.wav", captions=(Caption("A bell rings."),)),
    ]
    path = tmp_path / "clotho_evaluation_negative_queries.jsonl"
    path.write_text(
        published(query_type="question", generated_query="Can you find rain on a roof?")
        + published(query_type="imperative", generated_query="Find rain on a roof")
        + published(query_type="tagging", generated_query="rain, roof")
        + published(
            audio_id="Rain on Roof",
            query_type="negative",
            negative_query="Rain on a roof, without thunder",
            negative_captions=["thunder rolls", "A storm with thunder."],
        )
        + published(query_type="negative", negative_query="Rain, no sirens", negative_captions=["A siren wails."])
        + published(audio_id="elsewhere.wav", query_type="paraphrase", generated_query="A downpour")
    )
    found = query_files.read(path, clips)
    assert [query.kind for query in found.queries] == ["question", "command", "tags", "exclusion", "exclusion"]
    assert all(query.relevance == {"Rain on Roof.wav": 1.0} for query in found.queries)
    assert [query.distractors for query in found.queries][-2:] == [("storm.wav",), ()]
    assert "1 of 6 queries ask for clips" in found.notes[0] and "1 exclusions have no hard negative" in found.notes[1]
    path.write_text(published(query_type="song", generated_query="la"))
    with pytest.raises(UserError, match=r"row 1 \(line 1\): a published query has an audio_id, a query_type"):
        query_files.read(path, clips)
