"""``supclap bench``: how fast this machine does what we hold ourselves to, beside what we compare with."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path

from supclap import runtime
from supclap.bench import BENCHES
from supclap.schema import UserError, unknown


def bench(
    name: str | None = None,
    /,
    *,
    rounds: int | None = None,
    threads: int | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Measure and print a table.

    Parameters
    ----------
    name
        What to measure; everything when left out.
    rounds
        Interleaved rounds a size, instead of the bench's own number.
    threads
        Threads for one operation, instead of torch's own choice.
    out
        Also write a Markdown result file; one bench only.
    json
        Print one JSON object instead of text.
    """
    if name is not None and name not in BENCHES:
        raise unknown("bench", name, BENCHES)
    for option, value in (("rounds", rounds), ("threads", threads)):
        if value is not None and value < 1:
            raise UserError(f"{option}={value} must be 1 or more")
    if out is not None and name is None:
        raise UserError(f"out={str(out)!r} takes one bench; name it: supclap bench {next(iter(BENCHES))} --out {out}")
    runtime.threads(threads)
    results = {}
    for chosen in BENCHES if name is None else [name]:
        results[chosen] = BENCHES[chosen](rounds=rounds, say=lambda line: print(line, file=sys.stderr))
        if not json:
            print(results[chosen].text())
    if json:
        print(json_module.dumps({chosen: result.plain() for chosen, result in results.items()}, indent=1))
    if out is not None and name is not None:
        words = [
            f"supclap bench {name}",
            *(f"--{key} {value}" for key, value in (("rounds", rounds), ("threads", threads)) if value),
        ]
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(results[name].markdown(" ".join(words)), encoding="utf8")
