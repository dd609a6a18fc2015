"""One self-contained HTML file from plain values: no network, good at 390 px and in print.

A section is (heading, body); a body is text made by the functions below. Whatever comes from data is escaped there.
"""

from __future__ import annotations

import base64
import html
import io
import wave
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Section = tuple[str, str]

# A report asks for nothing from outside and runs nothing, whatever its data holds.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"
_STYLE = """
:root{--ink:#1b1f24;--soft:#5b6570;--line:#d9dee4;--back:#fff;--card:#f6f8fa;--good:#0b6e4f;--bad:#a4332b;--link:#0b5cad}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#9aa5b1;--line:#343b43;--back:#14171a;--card:#1d2125;
--good:#4fc39a;--bad:#f08a80;--link:#78b4f5}.figure svg,.figure img{background:#fff;border-radius:6px}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem 1rem 3rem;max-width:58rem;color:var(--ink);background:var(--back);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:.4rem 0 .2rem}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem;padding-top:.8rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .4rem}
p{margin:.5rem 0}
.soft{color:var(--soft);font-size:.9rem}
.lead{font-size:1.08rem}
.good{color:var(--good)}.bad{color:var(--bad)}
.wide{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;min-width:7rem}
th{color:var(--soft);font-weight:600}
.figure{display:inline-block;vertical-align:top;width:27rem;max-width:100%;margin:.8rem 1rem .4rem 0}
.figure svg,.figure img{max-width:100%;height:auto;display:block}
figcaption{color:var(--soft);font-size:.88rem;margin-top:.25rem}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr));gap:.8rem;margin:.6rem 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.7rem .8rem;break-inside:avoid}
.card p{margin:.25rem 0;font-size:.92rem}
.card img{width:100%;height:auto;border-radius:4px;display:block;margin:.35rem 0}
audio{width:100%;height:36px;margin-top:.2rem}
blockquote{margin:1.2rem 0 .3rem;padding:.1rem .8rem;border-left:4px solid var(--link);font-size:1.08rem}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.7rem .8rem;overflow-x:auto;
font-size:.86rem;line-height:1.45;margin:.5rem 0}
details{margin:.6rem 0}summary{cursor:pointer;color:var(--link)}
@media (max-width:30rem){th,td{padding:.35rem .3rem;font-size:.84rem;overflow-wrap:normal}
.few th,.few td{white-space:normal}th:first-child,td:first-child{min-width:5rem}}
@media print{body{max-width:none;padding:0;font-size:11pt}audio,summary{display:none}
.figure{width:47%;break-inside:avoid}h2{break-after:avoid}pre{white-space:pre-wrap}details>*{display:block}details::details-content{content-visibility:visible;display:block}}
"""


def page(title: str, sections: Iterable[Section], *, subtitle: str = "") -> str:
    """The whole file."""
    body = "".join(f"<section><h2>{escape(heading)}</h2>{inner}</section>\n" for heading, inner in sections)
    under = f'<p class="soft">{escape(subtitle)}</p>' if subtitle else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        # An empty icon: a browser asks for none.
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>{under}\n{body}</body></html>\n"
    )


def escape(text: object) -> str:
    """Text as HTML shows it."""
    return html.escape(str(text), quote=True)


def text(words: object, kind: str = "") -> str:
    """A paragraph; ``kind``: "lead", "soft", "good" or "bad"."""
    return f'<p class="{escape(kind)}">{escape(words)}</p>' if kind else f"<p>{escape(words)}</p>"


def heading(words: object) -> str:
    """A heading inside a section."""
    return f"<h3>{escape(words)}</h3>"


def quote(words: object, language: str = "") -> str:
    """What somebody typed."""
    lang = f' lang="{escape(language)}"' if language else ""
    return f"<blockquote{lang}>{escape(words)}</blockquote>"


def code(lines: str | Iterable[str]) -> str:
    """Commands to copy."""
    joined = lines if isinstance(lines, str) else "\n".join(lines)
    return f"<pre><code>{escape(joined)}</code></pre>"


def table(headers: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table whose cells break where the page is narrow; with more than six columns it scrolls by itself."""
    head = "".join(f"<th>{escape(name)}</th>" for name in headers)
    body = "".join("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in rows)
    kind = "wide few" if len(headers) <= 6 else "wide"
    return f'<div class="{kind}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def figure(svg: str, caption: object = "") -> str:
    """An SVG drawing (ours: not escaped) with its caption."""
    inner = svg[svg.find("<svg") :]
    return f'<figure class="figure">{inner}<figcaption>{escape(caption)}</figcaption></figure>'


def image(png: bytes | str, words: object) -> str:
    """A picture, inline; ``words`` say what it shows."""
    uri = png if isinstance(png, str) else "data:image/png;base64," + base64.b64encode(png).decode()
    return f'<img src="{escape(uri)}" alt="{escape(words)}">'


def audio(samples: np.ndarray, rate: int, words: object = "") -> str:
    """A sound to play, inline as 16-bit WAV."""
    uri = "data:audio/wav;base64," + base64.b64encode(wav(samples, rate)).decode()
    return f'<audio controls preload="none" src="{uri}" aria-label="{escape(words)}"></audio>'


def wav(samples: np.ndarray, rate: int) -> bytes:
    """Mono samples as the bytes of a WAV file; louder than full scale is turned down, never clipped."""
    peak = max(1.0, float(np.abs(samples).max(initial=0.0)))
    whole = np.round(np.asarray(samples, np.float64) / peak * 32767).astype("<i2")
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(whole.tobytes())
    return held.getvalue()


def cards(bodies: Iterable[str]) -> str:
    """Several small things side by side, below each other on a phone."""
    return '<div class="cards">' + "".join(f'<div class="card">{body}</div>' for body in bodies) + "</div>"


def folded(words: object, body: str) -> str:
    """Something to open on request; open in print."""
    return f"<details><summary>{escape(words)}</summary>{body}</details>"


def listing(values: dict[str, Any]) -> str:
    """Names and values, nested ones flattened to dotted names."""
    return table(("", ""), flattened(values))


def flattened(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Pairs of a dotted name and a value."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            found += flattened(value, f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", value))
    return found
