"""The grammar of eight languages: agreement, articles, elision, word order; no empty slot, no ambiguous sentence."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supclap.data.scenes import EVENTS, Placed, Truth
from supclap.data.scenes.grammar import LANGUAGES, WAYS, cat, deu, eng, fra, jpn, nld, spa, tell_all, tell_one, zho
from supclap.data.scenes.grammar.language import Said
from supclap.data.scenes.plan import plans
from supclap.schema import UserError

MODULES = {"eng": eng, "fra": fra, "deu": deu, "spa": spa, "nld": nld, "cat": cat, "jpn": jpn, "zho": zho}
MODULE_LIST = list(MODULES)


@pytest.fixture(scope="module")
def sentences():
    """Every way to tell 250 scenes, in every language."""
    truths = plans(250, 11, "test", 5.0, distinct=True)
    return {code: [text for truth in truths for text in tell_all(truth, code)] for code in LANGUAGES}


def test_there_are_the_paper_s_eight_languages():
    assert list(LANGUAGES) == ["eng", "fra", "deu", "spa", "nld", "cat", "jpn", "zho"]


@pytest.mark.parametrize("code", MODULES)
def test_every_sound_has_words_in_every_language(code):
    words = MODULES[code].WORDS
    assert words.keys() == EVENTS.keys()
    for name, word in words.items():
        assert word.subject and word.verb and word.noun and word.kind, name
    said = [(w.subject, w.verb, w.rest) for w in words.values()]
    nouns = [(w.noun, w.owner) for w in words.values()]
    assert len(set(said)) == len(said) and len(set(nouns)) == len(nouns)


@pytest.mark.parametrize("code", MODULES)
def test_every_attribute_has_two_words_and_none_means_two_things(code):
    module = MODULES[code]
    for table, keys in (
        (module.MANNERS, {"loud", "soft", "low", "high", "slow", "fast"}),
        (module.QUALITIES, {"loud", "soft", "low", "high", "slow", "fast"}),
        (module.TIMES, {"2", "3", "4"}),
        (module.ROW, {"2", "3", "4"}),
    ):
        assert table.keys() == keys
        forms = [form for pair in table.values() for form in pair]
        assert len(forms) == len(set(forms)) and all(forms)


@pytest.mark.parametrize("code", MODULE_LIST)
def test_no_empty_slot_no_doubled_space_no_stray_mark(code, sentences):
    for text in sentences[code]:
        assert text == text.strip() and "  " not in text and text[0] == text[0].upper(), text
        assert not re.search(r" [,;.]|,,|\(\)|\{|\}|None|[,;:、，：]$|、。|，，|、、", text.replace(" ; ", "")), text
        if code in ("jpn", "zho"):
            assert " " not in text and not re.search(r"[a-zA-Z,;]", text), text
        else:
            assert not re.search(r"\b(\w+) \1\b", text, flags=re.IGNORECASE), text


@pytest.mark.parametrize("code", MODULE_LIST)
def test_no_sentence_is_true_of_two_scenes_and_all_of_one_scene_differ(code):
    owner = {}
    for number, truth in enumerate(plans(300, 12, "test", 5.0, distinct=True)):
        told = tell_all(truth, code)
        assert len(told) == len(set(told)) >= 5, told
        for text in told:
            assert owner.setdefault(text, number) == number, text


def test_french_elides_and_contracts(sentences):
    vowel = "aeiouéèêâîôûœ"
    for text in sentences["fra"]:
        assert not re.search(rf"\b(de|le|la|que|se|ne) [{vowel}]", text.replace("de onze", "")), text
        assert not re.search(r"\bde (le|les)\b", text), text
        assert not re.search(rf"\b[dlLD]'[^{vowel}yh]", text), text
        assert not re.search(r"[lL]'hurlement", text), text
    joined = " ".join(sentences["fra"])
    assert "pendant qu'un " in joined and "pendant que la pluie" in joined
    assert "suivi du " in joined and "suivi de l'aboiement" in joined and "suivis d" in joined and "suivie d" in joined


def test_french_adjectives_agree():
    loud = {"loudness": "loud", "pitch": "high"}
    assert fra.noun(Said("telephone", loud, False, 0), "plain") == "la sonnerie bruyante et aiguë d'un téléphone"
    assert fra.noun(Said("footsteps", loud, False, 0), "plain") == "les pas bruyants et aigus sur un sol dur"
    assert fra.noun(Said("dog", loud, False, 0), "after") == "de l'aboiement bruyant et aigu d'un chien"
    assert fra.noun(Said("wind", loud, False, 0), "plain") == "le hurlement bruyant et aigu du vent"


def test_spanish_contracts_and_agrees(sentences):
    for text in sentences["spa"]:
        assert not re.search(r"\b(de|a) el\b", text), text
    assert spa.noun(Said("train_horn", {"pitch": "high", "speed": "slow"}, False, 0), "plain") == (
        "la bocina aguda y lenta de un tren"
    )
    assert (
        spa.noun(Said("clapping", {"loudness": "loud"}, False, 0), "after") == "de las palmas ruidosas de una persona"
    )
    assert "seguidos del " in " ".join(sentences["spa"]) and "seguidas del " in " ".join(sentences["spa"])


def test_catalan_apostrophes_and_contractions(sentences):
    vowel = "aeioàèéíòóú"
    for text in sentences["cat"]:
        assert not re.search(r"\b(de|a|per) els?\b", text), text
        assert not re.search(rf"\b(de|el|la) [{vowel}]", text), text
        assert not re.search(rf"\b[dlDL]'[^{vowel}uh]", text), text
    assert cat.noun(Said("wind", {"loudness": "loud"}, False, 0), "plain") == "l'udol sorollós del vent"
    assert cat.noun(Said("siren", {"loudness": "loud"}, False, 0), "after") == "de l'udol sorollós d'una sirena"
    assert cat.noun(Said("bird", {"loudness": "loud"}, False, 0), "plain") == "la piulada sorollosa d'un ocell"


GERMAN = {
    ("guitar", "plain"): "der hohe Klang einer Gitarre",
    ("guitar", "object"): "den hohen Klang einer Gitarre",
    ("guitar", "with"): "dem hohen Klang einer Gitarre",
    ("car_horn", "plain"): "die hohe Hupe eines Autos",
    ("car_horn", "object"): "die hohe Hupe eines Autos",
    ("car_horn", "after"): "der hohen Hupe eines Autos",
    ("dog", "plain"): "das hohe Bellen eines Hundes",
    ("dog", "object"): "das hohe Bellen eines Hundes",
    ("dog", "with"): "dem hohen Bellen eines Hundes",
    ("footsteps", "plain"): "die hohen Schritte auf einem harten Boden",
    ("footsteps", "object"): "die hohen Schritte auf einem harten Boden",
    ("footsteps", "with"): "den hohen Schritten auf einem harten Boden",
}


@pytest.mark.parametrize(("label", "case"), GERMAN)
def test_german_cases(label, case):
    assert deu.noun(Said(label, {"pitch": "high"}, False, 0), case) == GERMAN[label, case]


def test_german_and_dutch_verbs_stand_where_they_must(sentences):
    knock = Said("knock", {"count": "2", "loudness": "loud"}, True, 0)
    assert deu.clause(knock, "main") == "jemand klopft erneut zweimal laut an eine Tür"
    assert deu.clause(knock, "inverted") == "klopft jemand erneut zweimal laut an eine Tür"
    assert deu.clause(knock, "last") == "jemand erneut zweimal laut an eine Tür klopft"
    assert nld.clause(knock, "inverted") == "klopt iemand opnieuw twee keer luid op een deur"
    assert nld.clause(knock, "last") == "iemand opnieuw twee keer luid op een deur klopt"
    for code, openings in (("deu", "dann|danach|Anschluss|zuerst|hier"), ("nld", "dan|daarna|vervolgens|eerst|hier")):
        verbs = {word.verb for word in MODULES[code].WORDS.values()} | {"der", "die", "das", "den", "de", "het"}
        for text in sentences[code]:
            if ("gefolgt" in text) or ("gevolgd" in text):
                continue
            for after in re.findall(rf"\b(?:{openings}) (\w+)", text, flags=re.IGNORECASE):
                assert after in verbs, text
    for text in sentences["deu"]:
        assert not re.search(r"\bvon dem\b|\b(mit|von|vom) (das|die)\b", text), text
        for clause in re.findall(r"während ([^,;:]+)", text):
            assert clause.split()[-1] in {word.verb for word in deu.WORDS.values()}, text


def test_dutch_articles_are_those_of_the_nouns(sentences):
    """Nouns made with ge- are neuter; an adjective behind an article ends in -e."""
    for word in nld.WORDS.values():
        assert word.kind == ("het" if word.noun.startswith("ge") else "de")
    for forms in nld.QUALITIES.values():
        assert all(form.endswith("e") for form in forms)


def test_japanese_and_chinese_put_the_verb_or_noun_last():
    said = Said("knock", {"count": "2", "loudness": "loud"}, True, 0)
    assert jpn.clause(said, "main") == "誰かが再び二回大きくドアをたたく"
    assert jpn.noun(said, "plain").endswith("ドアをたたく音") and zho.noun(said, "plain").endswith("敲门声")
    assert zho.clause(said, "main") == "有人再次大声地连续两次敲门"


def test_english_knows_every_class_of_the_real_banks_and_speaks_of_any_other():
    assert eng.word_of("dog_bark").verb == "barks" == eng.word_of("dog bark").verb
    assert eng.clause(Said("espresso-machine", {}, False, 0), "main") == "the sound of espresso machine is heard"


ATTRIBUTES = {
    "count": ("2", "3", "4"),
    "pitch": ("low", "high"),
    "speed": ("slow", "fast"),
    "loudness": ("soft", "loud"),
}
placed = st.builds(
    lambda label, attributes: (label, tuple(sorted(attributes.items()))),
    st.sampled_from(list(EVENTS)),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in ATTRIBUTES.items()}),
)
groups = st.lists(st.lists(placed, min_size=1, max_size=2, unique_by=lambda e: e[0]), min_size=1, max_size=3)


def truth_of(steps, behind):
    events = [
        Placed(label, number, number + 0.5, number, dict(attributes))
        for number, step in enumerate(steps)
        for label, attributes in step
    ]
    return Truth(5.0, (*events, *([Placed(behind, 0, 5, -1)] if behind else [])))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(groups, groups, st.sampled_from([None, "rain", "wind"]), st.sampled_from(MODULE_LIST), st.integers(0, WAYS - 1))
def test_different_signatures_never_share_a_sentence(one, other, behind, code, way):
    first, second = truth_of(one, behind), truth_of(other, behind)
    assert (tell_one(first, code, way) in tell_all(second, code)) <= (first.signature == second.signature)
    changed = truth_of([[*one[0][:-1], (one[0][-1][0], (("count", "9"),))], *one[1:]], behind)
    assert changed.signature != first.signature


def test_an_unknown_language_is_named():
    with pytest.raises(UserError, match="language='fre'.*fra"):
        tell_one(truth_of([[("dog", ())]], None), "fre", 0)
