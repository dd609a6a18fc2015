"""The HTML page: data is escaped, sounds are true WAV, nothing points outside."""

import base64
import io
import re
import wave
from html.parser import HTMLParser

import numpy as np

from supclap.report import html

EVIL = "<script>alert(\"x\")</script> & 'quoted'"


class Balanced(HTMLParser):
    """Every tag that opens is closed, in order."""

    void = {"meta", "link", "img", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_whatever_comes_from_data_is_escaped():
    body = "".join(
        [
            html.text(EVIL), html.text(EVIL, "lead"), html.heading(EVIL), html.quote(EVIL, EVIL),
            html.code([EVIL, EVIL]),
            html.table([EVIL], [[EVIL]]), html.figure("<svg></svg>", EVIL), html.image(b"png", EVIL),
            html.audio(np.zeros(8), 8000, EVIL), html.cards([html.text(EVIL)]), html.folded(EVIL, html.text(EVIL)),
            html.listing({EVIL: EVIL}),
        ]
    )  # fmt: skip
    page = html.page(EVIL, [(EVIL, body)], subtitle=EVIL)
    parsed = Balanced()
    parsed.feed(page)
    assert parsed.open == []
    assert "script" not in parsed.tags
    assert parsed.text.count(EVIL) >= 14
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert 'name="viewport"' in page
    assert "@media print" in page


def test_a_sound_is_a_true_wav():
    samples = np.sin(np.arange(1000) / 5) * 0.5
    data = base64.b64decode(re.search(r'src="data:audio/wav;base64,([^"]+)"', html.audio(samples, 16000)).group(1))
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        back = np.frombuffer(file.readframes(1000), "<i2") / 32767
    assert np.abs(back - samples).max() < 1e-4


def test_too_loud_is_turned_down_not_clipped():
    samples = np.array([0.0, 2.0, -4.0, 1.0])
    with wave.open(io.BytesIO(html.wav(samples, 8000))) as file:
        back = np.frombuffer(file.readframes(4), "<i2") / 32767
    assert np.allclose(back, samples / 4, atol=1e-4)


def test_nested_values_become_dotted_names():
    assert html.flattened({"a": {"b": 1, "c": {"d": 2}}, "e": {}}) == [("a.b", 1), ("a.c.d", 2), ("e", {})]
