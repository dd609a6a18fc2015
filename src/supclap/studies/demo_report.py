"""The demo's report: answers to play first, then the numbers, then what went wrong, then what to do next."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from supclap.audio.reader import read
from supclap.data.scenes.truth import Truth
from supclap.evaluation import significance
from supclap.evaluation.retrieval import DIRECTIONS, Scores
from supclap.report import figures, html
from supclap.schema import Clip, Hit
from supclap.studies.asking import Answer, Query, Threshold, ask, threshold
from supclap.studies.demo import REPORT, Demo, smooth
from supclap.training.failures import Failure, failures

QUERIES = (
    Query("a frog croaks"),
    Query("a siren wails, then a dog barks"),
    Query("une cloche sonne", "fra"),
    Query("someone knocks on a door"),
    Query("a helicopter hovers overhead"),
    Query("an orchestra plays a waltz in a concert hall"),
)
NAMES = {
    "infonce": "InfoNCE",
    "twice": "InfoNCE, counted twice (bi, R = 0)",
    "uni-zero": "uni, R = 0",
    "bi-dynamic": "SupCLAP (bi-Dynamic)",
}
SHORT = {"infonce": "InfoNCE", "twice": "InfoNCE twice", "uni-zero": "uni, R = 0", "bi-dynamic": "bi-Dynamic"}
WAYS = {"t2a": "text to audio", "a2t": "audio to text"}


def write_report(demo: Demo, sounds: tuple[Path, list[tuple[Query, list[Hit]]]] | None = None) -> Path:
    """Write report.html into the demo's folder."""
    limit = threshold(demo.val, demo.seen)
    model = demo.trained["bi-dynamic"].run.model
    answers = ask(model, QUERIES, demo.seen, limit.value)
    sections = [
        ("Ask for a sound", _answers(answers, demo, limit)),
        ("Did SVR help here?", _scores(demo)),
        ("What happened in training", _curves(demo)),
        ("Three failures", _failures(demo)),
        ("Now yours", _next()),
        ("How this was made", _made(demo)),
    ]
    if sounds is not None:
        sections.insert(1, (f"The same questions over {sounds[0]}", _folder(*sounds)))
    size = f"{len(demo.clips['train'])} scenes to train on, {len(demo.clips['test'])} others to ask about"
    path = demo.folder / REPORT
    path.write_text(html.page("Sounds and words in one space", sections, subtitle=size), encoding="utf8")
    return path


# -- answers ---------------------------------------------------------------------------------------------------------


def _answers(answers: Sequence[Answer], demo: Demo, limit: Threshold) -> str:
    body = html.text(
        f"Typed queries over {len(demo.seen.clips)} scenes that no model here was trained on, answered by the "
        "bi-Dynamic model. Press play.",
        "lead",
    )
    for answer in answers:
        body += html.quote(answer.query.text, answer.query.language)
        if not answer.clips:
            body += html.text(
                f"Nothing here matches (the nearest scene has cosine {answer.nearest:.2f}, below {limit.value:.2f}).",
                "bad",
            )
        pairs = zip(answer.clips, answer.scores, strict=True)
        body += html.cards(_card(clip, f"cosine {score:.2f}", demo.truths) for clip, score in pairs)
    return body + html.text(
        f"Cosines below {limit.value:.2f} are answered with nothing. That limit was chosen on validation captions; on "
        f"test captions {100 * limit.answered:.0f} % are answered while their scene is there, and "
        f"{100 * limit.declined:.0f} % are declined once it is taken out.",
        "soft",
    )


def _card(clip: Clip, words: str, truths: dict[str, Truth]) -> str:
    samples = read(clip.audio, 16000, clip.start, clip.end)
    said = clip.captions[0].text if clip.captions else clip.id
    picture = html.image(figures.spectrogram(samples, 16000, size=(320, 110)), f"spectrogram of {clip.id}")
    heard = ", ".join(_events(clip, truths)) or clip.id
    return (
        html.text(words, "soft")
        + picture
        + html.audio(samples, 16000, said)
        + html.text(said)
        + html.text(heard, "soft")
    )


def _events(clip: Clip, truths: dict[str, Truth]) -> list[str]:
    truth = truths.get(clip.id)
    return [event.label.replace("_", " ") for event in truth.events] if truth else []


def _folder(sounds: Path, found: list[tuple[Query, list[Hit]]]) -> str:
    body = html.text(
        "Answered by frozen pretrained towers (the model called bridge), which were not trained on these sounds either."
    )
    for query, hits in found:
        body += html.quote(query.text, query.language)
        if not hits:
            body += html.text("Not asked: the multilingual sentence encoder is not here (see supclap doctor).", "soft")
        cards = []
        for hit in hits:
            name = os.path.relpath(hit.path, sounds)
            samples = read(hit.path, 16000, hit.start, min(hit.end, hit.start + 8.0))
            picture = html.image(figures.spectrogram(samples, 16000, size=(320, 110)), f"spectrogram of {name}")
            cards.append(
                html.text(f"score {hit.score:.2f}", "soft")
                + picture
                + html.audio(samples, 16000, name)
                + html.text(name)
            )
        body += html.cards(cards)
    return body


# -- numbers ---------------------------------------------------------------------------------------------------------


def verdict(scores: dict[str, Scores]) -> str:
    """One sentence: whether SVR helped here, against the base and against the better of the controls."""
    controls = ("twice", "uni-zero")
    best = max(controls, key=lambda name: sum(scores[name][way]["R@1"] for way in DIRECTIONS))
    base = significance.compare(scores["infonce"], scores["bi-dynamic"])
    control = significance.compare(scores[best], scores["bi-dynamic"])
    words = {}
    for name, found in (("base", base), ("control", control)):
        ways = [f"{one.gain:+.1f} {WAYS[way]} ({one.low:+.1f} to {one.high:+.1f})" for way, one in found.items()]
        words[name] = " and ".join(ways)
    both = [*base.values(), *control.values()]
    if all(one.low > 0 for one in both):
        said = "Here SVR helped"
    elif all(one.high < 0 for one in base.values()):
        said = "Here SVR did harm"
    elif all(one.low > 0 for one in base.values()):
        said = "Here SVR beat its base, but a control without a support vector does not stand clearly below it"
    else:
        said = "Here it cannot be said that SVR helped"
    return (
        f"{said}: R@1 changed by {words['base']} against InfoNCE, and by {words['control']} against the better control "
        f"({NAMES[best]}); 95 % intervals over clips, one seed, synthesised sounds."
    )


def _scores(demo: Demo) -> str:
    scores = {name: one.scores for name, one in demo.trained.items()}
    rows = []
    for name, one in scores.items():
        row = [NAMES[name]]
        for way in DIRECTIONS:
            for metric in ("R@1", "mAP10"):
                low, high = one.interval(way, metric)
                row.append(f"{one[way][metric]:.1f} [{low:.1f}, {high:.1f}]")
        rows.append(row)
    headers = ("", "T2A R@1", "T2A mAP10", "A2T R@1", "A2T mAP10")
    first = next(iter(scores.values()))
    languages = len({caption.language for clip in demo.clips["test"] for caption in clip.captions})
    chance = 100 / first["clips"]
    return (
        html.text(verdict(scores), "lead")
        + html.table(headers, rows)
        + html.text(
            f"Percent with 95 % intervals, resampling clips. Test split: {first['clips']} clips, {first['captions']} "
            f"captions in {languages} language{'s' if languages > 1 else ''}; protocol {first['protocol']}; chance R@1 "
            f"{chance:.1f}. The controls have no support vector: one counts the base twice, the other its "
            "text-to-audio half once more.",
            "soft",
        )
    )


def _curves(demo: Demo) -> str:
    rows = {SHORT[name]: one.curves for name, one in demo.trained.items() if one.curves}

    def series(key: str) -> dict[str, Any]:
        return {
            name: ([row["step"] for row in found], smooth([row[key] for row in found]))
            for name, found in rows.items()
            if key in found[0]
        }

    steps = [line for line in demo.trained["bi-dynamic"].run.records if line["event"] == "step"]
    share = {
        f"R/d, {WAYS[way]}": ([line["step"] for line in steps], smooth([line["share"][way] for line in steps]))
        for way in steps[0]["share"]
    }
    loss = {
        SHORT[name]: _loss([line for line in one.run.records if line["event"] == "step"])
        for name, one in demo.trained.items()
    }
    drawn = [
        (loss, "loss of the base", "The base's own part of the loss, so that all four can be compared."),
        (series("drift_t2a"), "cos(force, pull)", "Drift of the force on texts: 1 is straight towards the positive."),
        (series("step_drift_t2a"), "cos(step, pull)", "Drift of what the optimizer's step really did to texts."),
        (series("parallel_t2a"), "parallel force", "Force on texts along the way to the positive."),
        (series("perpendicular_t2a"), "sideways force", "Force across that way: what SVR is meant to weigh down."),
        (
            share,
            "R / d",
            "Radius over distance in the bi-Dynamic run; above 1 the support vector lies beyond its positive.",
        ),
    ]
    return "".join(
        html.figure(figures.curve(lines, x="step", y=label), caption) for lines, label, caption in drawn if lines
    )


def _loss(steps: Sequence[dict[str, Any]]) -> tuple[list[int], np.ndarray]:
    return [line["step"] for line in steps], smooth([line["parts"]["base"] for line in steps], 9)


# -- what went wrong, and what comes next ----------------------------------------------------------------------------


def _failures(demo: Demo) -> str:
    worst = failures(demo.seen)
    if not worst:
        return html.text("There is none: every caption found its scene first.")
    return "".join(
        html.quote(one.text, one.language)
        + html.text(f"Its scene came at place {one.rank}. {confusion(one, demo.truths)}")
        + html.cards(
            [_card(one.right, "what was meant", demo.truths), _card(one.found, "what came first", demo.truths)]
        )
        for one in worst
    )


def confusion(failure: Failure, truths: dict[str, Truth]) -> str:
    """What the two scenes have in common and what was taken for what."""
    right, found = (set(_events(clip, truths)) for clip in (failure.right, failure.found))
    if right == found:
        return "Both scenes have the same sounds; their order or how they sound differs."
    missed, instead = ", ".join(sorted(right - found)), ", ".join(sorted(found - right))
    words = [f"Not heard: {missed}." if missed else "", f"Heard instead: {instead}." if instead else ""]
    return " ".join(word for word in words if word)


def _next() -> str:
    commands = {
        "Your folder of sounds, with no training": 'supclap search FOLDER "rain on a tin roof"',
        "Your table, with the columns audio and caption": "supclap train my.csv --out runs/mine",
        "Your model: a run, a saved folder, or a published CLAP": "supclap evaluate runs/mine my.csv",
    }
    return "".join(html.text(words) + html.code(command) for words, command in commands.items())


def _made(demo: Demo) -> str:
    folder = demo.trained["bi-dynamic"].run.path
    environment = json.loads((folder / "environment.json").read_text(encoding="utf8"))
    config = json.loads((folder / "run.json").read_text(encoding="utf8"))
    seconds = ", ".join(f"{name} {one.seconds:.0f} s" for name, one in demo.trained.items())
    again = f"supclap demo --out {shlex.quote(str(demo.folder))}"
    return (
        html.text(f"Seed {demo.settings.seed}; commit {environment['commit'] or 'unknown'}. Training: {seconds}.")
        + html.code(again)
        + html.folded("environment", html.listing(environment))
        + html.folded("settings of the bi-Dynamic run", html.listing(config))
    )
