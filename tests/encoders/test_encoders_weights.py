"""Weights on disk: whole, the right ones, and never code."""

import functools
import http.server
import os
import pickle
import threading

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from supclap.encoders import pretrained
from supclap.encoders.weights import fit, sha_of, tensors
from supclap.schema import UserError


class Poison:
    """Makes a file when it is unpickled by a careless reader."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("how", ["torch", "pickle", "inside"])
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_poisoned_pickle_does_not_run(tmp_path, how):
    path, proof = tmp_path / "weights.pt", tmp_path / "proof"
    held = {"a": torch.ones(2), "b": Poison(proof)} if how == "inside" else Poison(proof)
    if how == "pickle":
        path.write_bytes(pickle.dumps(held))
    else:
        torch.save(held, path)
    with pytest.raises(UserError, match="weights.pt: (refused|not a whole)"):
        tensors(path)
    assert not proof.exists()
    # The poison is a real one: the careless reader does run it.
    torch.load(path, weights_only=False) if how != "pickle" else pickle.loads(path.read_bytes())
    assert proof.exists()


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_truncated_files(tmp_path, suffix, keep):
    path = tmp_path / f"w{suffix}"
    state = {"a": torch.randn(100, 50), "b": torch.randn(7)}
    save_file(state, path) if suffix == ".safetensors" else torch.save(state, path)
    assert all(torch.equal(tensors(path)[key], state[key]) for key in state)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if keep < 1 else keep])
    with pytest.raises(UserError, match=f"w{suffix}"):
        tensors(path)


def test_files_that_hold_something_else(tmp_path):
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(UserError, match="no state dict"):
        tensors(tmp_path / "list.pt")
    with pytest.raises(UserError, match="no such weights file"):
        tensors(tmp_path / "none.pt")


def test_keys_that_do_not_match_are_listed():
    module = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    state = dict(module.state_dict())
    fit(module, state, "w")
    state["2.extra"] = state.pop("1.bias")
    state["0.weight"] = torch.zeros(2, 4)
    with pytest.raises(UserError) as error:
        fit(module, state, "w.pt")
    for words in ("w.pt", "missing: 1.bias", "unknown: 2.extra", "0.weight (2, 4) for (2, 3)"):
        assert words in str(error.value)
    with pytest.raises(UserError, match="and 92 more"):
        fit(module, module.state_dict() | {f"x{k}": torch.zeros(1) for k in range(100)}, "w")


def test_sha_follows_values_names_and_words():
    torch.manual_seed(0)
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    b.load_state_dict(a.state_dict())
    assert sha_of(a) == sha_of(b) != sha_of(a, "other")
    with torch.no_grad():
        b.bias[0] += 1e-6
    assert sha_of(a) != sha_of(b)


# -- by name -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


def test_missing_weights_say_what_and_where(cache):
    with pytest.raises(UserError) as error:
        pretrained.locate("mn04")
    for words in ("mn04_as_mAP_432.pt", "4.1 MB", str(cache), "supclap models add mn04"):
        assert words in str(error.value)
    with pytest.raises(UserError, match="did you mean 'mn04'"):
        pretrained.locate("mm04")
    with pytest.raises(UserError, match="no such file"):
        pretrained.find("./mine.pt")


def test_add_checks_size_and_hash(cache, tmp_path):
    short, wrong = tmp_path / "short.pt", tmp_path / "wrong.pt"
    short.write_bytes(b"x" * 100)
    wrong.write_bytes(b"x" * pretrained.WEIGHTS["mn04"].bytes)
    with pytest.raises(UserError, match="100 bytes where"):
        pretrained.add("mn04", short)
    with pytest.raises(UserError, match="sha256"):
        pretrained.add("mn04", wrong)
    with pytest.raises(UserError, match="is a folder"):
        pretrained.add("mn04", tmp_path)
    with pytest.raises(UserError, match="pip install"):
        pretrained.add("minilm", short)
    assert not (cache / "mn04_as_mAP_432.pt").exists()


@pytest.mark.shared
def test_add_then_locate(cache, shared):
    path = pretrained.add("mn04", shared / "weights" / "mn04_as_mAP_432.pt")
    assert path == pretrained.locate("mn04") == pretrained.fetch("mn04") and path.parent == cache
    assert {row["name"]: row["here"] for row in pretrained.listing()}["mn04"]


def test_a_hub_folder_can_be_added(cache, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    save_file({"a": torch.ones(1)}, given / "model.safetensors")
    assert pretrained.add("ced-tiny", given) == pretrained.locate("ced-tiny")
    assert tensors(pretrained.locate("ced-tiny"))["a"].item() == 1


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves ranges, as release hosts do."""

    asked: list = []

    def do_GET(self):
        data = (self.directory_path / self.path.strip("/")).read_bytes()
        header = self.headers.get("Range")
        first = int(header.removeprefix("bytes=").rstrip("-")) if header else 0
        self.asked.append(first)
        if first >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if header else 200)
        self.end_headers()
        self.wfile.write(data[first:])

    def log_message(self, *args):
        pass


class Breaking(Server):
    """Promises all and lets go after 10,000 bytes."""

    def do_GET(self):
        data = (self.directory_path / self.path.strip("/")).read_bytes()
        header = self.headers.get("Range")
        first = int(header.removeprefix("bytes=").rstrip("-")) if header else 0
        self.asked.append(first)
        self.send_response(206 if header else 200)
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        self.wfile.write(data[first : first + 10000])


@pytest.mark.parametrize("known", [True, False])
def test_a_download_that_breaks_off_is_kept_and_goes_on(tmp_path, monkeypatch, cache, known):
    """Half a file is never taken for the whole, whether its size was known before or not."""
    data = os.urandom(25000)
    (tmp_path / "file.pt").write_bytes(data)
    handler = type("Here", (Breaking,), {"directory_path": tmp_path, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/file.pt"
    size, mark = (len(data), pretrained.sha256(tmp_path / "file.pt")) if known else (None, None)
    entry = pretrained.Weights("url", address, "file.pt", "MIT", "a test", "none", size, mark)
    monkeypatch.setitem(pretrained.WEIGHTS, "breaking", entry)
    try:
        for stopped in ("10,000", "20,000"):
            with pytest.raises(UserError, match=f"stopped after {stopped} of 25,000 bytes.*try again"):
                pretrained.fetch("breaking")
            assert not (cache / "file.pt").exists()
        assert pretrained.fetch("breaking").read_bytes() == data
        assert handler.asked == [0, 10000, 20000]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def served(tmp_path, monkeypatch, cache):
    data = os.urandom(50000)
    (tmp_path / "file.pt").write_bytes(data)
    handler = type("Here", (Server,), {"directory_path": tmp_path, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/file.pt"
    make = functools.partial(pretrained.Weights, "url", address, "file.pt", "MIT", "a test", "none", len(data))
    monkeypatch.setitem(pretrained.WEIGHTS, "served", make(pretrained.sha256(tmp_path / "file.pt")))
    monkeypatch.setitem(pretrained.WEIGHTS, "wrong", make("0" * 64))
    yield data, handler.asked
    server.shutdown()
    server.server_close()


def test_fetch_goes_on_where_it_stopped(served, cache, capsys):
    data, asked = served
    cache.mkdir(parents=True)
    (cache / "file.pt.part").write_bytes(data[:20000])
    assert pretrained.fetch("served").read_bytes() == data and asked == [20000]
    assert "licence: MIT" in capsys.readouterr().err
    pretrained.fetch("served")
    assert asked == [20000] and capsys.readouterr().err == ""
    assert not (cache / "file.pt.part").exists()


def test_fetch_refuses_another_file(served, cache):
    with pytest.raises(UserError, match="sha256"):
        pretrained.fetch("wrong")
    assert list(cache.iterdir()) == []


def test_fetch_without_a_network(cache, monkeypatch):
    gone = pretrained.Weights("url", "http://127.0.0.1:9/x.pt", "x.pt", "MIT", "a test", "none")
    monkeypatch.setitem(pretrained.WEIGHTS, "gone", gone)
    with pytest.raises(UserError, match="cannot be reached.*supclap models add gone FILE"):
        pretrained.fetch("gone")
