"""The live line: everything it promises, from one record."""

from types import SimpleNamespace

from supclap.training.live import Live, told

STEP = {
    "event": "step", "loss": 3.5, "parts": {"base": 2.0, "svr": 1.5}, "radius": {"t2a": 0.5, "a2t": 0.25},
    "share": {"t2a": 0.4, "a2t": 0.2}, "scale": 1 / 0.07, "clips_per_s": 120.0, "wait": 0.25,
}  # fmt: skip


def test_the_line_says_all_of_it():
    line = told(SimpleNamespace(last=STEP))
    for words in ("loss 3.500", "base 2.000 svr 1.500", "R 0.50/0.25", "R/d 0.40/0.20", "tau 0.070", "120 clips/s",
                  "waits 25 % for data", " GB"):  # fmt: skip
        assert words in line


def test_every_set_is_told_at_an_evaluation(capsys):
    row = {"R@1": 12.5}
    also = {"others": {"t2a": row, "a2t": {"R@1": 25.0}, "clips": 8}}
    state = SimpleNamespace(step=5, best_step=5, last={"event": "eval", "also": also})
    Live("train").on_eval(state, {"t2a": row, "a2t": row, "clips": 9})
    talk = capsys.readouterr().err
    assert "step 5  R@1 12.5 text to audio" in talk
    assert "best so far" in talk
    assert "others: R@1 12.5, 25.0, 8 clips" in talk


def test_the_time_left_is_told_where_stderr_is_no_terminal(capsys):
    live = Live("train")
    live.on_start(SimpleNamespace(step=0, steps=100, clips={"train": [1] * 40}))
    live.said = -1e9
    live.on_step(SimpleNamespace(step=10, steps=100, last=STEP), None)
    talk = capsys.readouterr().err
    assert "100 steps, 40 clips" in talk
    assert "step 10/100" in talk
    assert " s left" in talk
