"""Progress on stderr: how many, how fast, how long still. Nothing is said of what takes less than a second."""

from __future__ import annotations

import sys
import time


class Meter:
    """Call it with (done, total)."""

    def __init__(self, unit: str = "files") -> None:
        self.unit, self.began, self.said = unit, time.monotonic(), time.monotonic()
        # (when, how many) at the first answer: what was loaded before it says nothing of the speed.
        self.first: tuple[float, int] | None = None
        self.live = sys.stderr.isatty()
        self.shown = False

    def __call__(self, done: int, total: int) -> None:
        """Say where it stands, at most twice a second; every ten seconds where stderr is no terminal."""
        now = time.monotonic()
        if self.first is None:
            self.first = (now, done)
        pause = 0.5 if self.live else 10.0
        if now - self.first[0] < 1.0 or done == self.first[1] or (now - self.said < pause and done < total):
            return
        self.said = now
        rate = (done - self.first[1]) / max(now - self.first[0], 1e-6)
        line = f"{done:,} of {total:,} {self.unit}, {rate:.1f} a second, {_clock((total - done) / rate)} to go"
        print(f"\r\033[K{line}" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)
        self.shown = True

    def close(self) -> None:
        """Clear the line."""
        if self.shown and self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def shown(path: object) -> str:
    """A path on one line, whatever its name holds."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(path))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"
