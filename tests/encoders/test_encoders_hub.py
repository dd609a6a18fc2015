"""The hub's own client against a hub of one folder on this machine: pushed, then loaded by its id."""

import base64
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading

import pytest

from supclap.schema import UserError

pytest.importorskip("huggingface_hub")
COMMIT = "0" * 39 + "1"


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub's interface as a push and a load need."""

    files: dict
    asked: list
    protocol_version = "HTTP/1.1"

    def answer(self, body=b"", kind="application/json", code=200, **headers):
        body = json.dumps(body).encode() if isinstance(body, dict | list) else body
        self.send_response(code)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self):
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.path, self.headers.get("Authorization")))
        if self.path == "/api/repos/create":
            self.answer({"url": f"http://{self.headers['Host']}/me/clap", "name": "me/clap"})
        elif "/preupload/" in self.path:
            names = [entry["path"] for entry in json.loads(sent)["files"]]
            self.answer({"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]})
        elif "/commit/" in self.path:
            for line in map(json.loads, sent.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            address = f"http://{self.headers['Host']}/me/clap/commit/{COMMIT}"
            self.answer({"success": True, "commitOid": COMMIT, "commitUrl": address})
        else:
            self.answer({}, code=200)

    def do_GET(self):
        if "/resolve/" in self.path:
            data = self.files[self.path.split("/", 5)[-1].partition("?")[0]]
            mark = hashlib.sha1(data).hexdigest()
            self.answer(data, "application/octet-stream", ETag=f'"{mark}"', X_Repo_Commit=COMMIT)
        elif self.path.startswith("/api/models/me/clap"):
            siblings = [{"rfilename": name} for name in self.files]
            entries = [
                {"type": "file", "path": name, "size": len(data), "oid": "0"} for name, data in self.files.items()
            ]
            self.answer(entries if "/tree/" in self.path else {"id": "me/clap", "sha": COMMIT, "siblings": siblings})
        else:
            self.answer({}, code=404)

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture
def hub():
    handler = type("Here", (Hub,), {"files": {}, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()


THERE_AND_BACK = """
import sys, numpy as np, supclap
model = supclap.load(sys.argv[1])
print(model.push_to_hub("me/clap"))
again = supclap.load("me/clap")
assert np.array_equal(again.embed_text(["a dog", ""]), model.embed_text(["a dog", ""]))
assert again.fingerprint() == model.fingerprint()
"""


def test_a_model_goes_to_the_hub_and_comes_back(small, hub, tmp_path):
    address, handler = hub
    small.save(tmp_path / "model")
    plain = os.environ | {"HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0", "HF_TOKEN": "hf_x", "HF_HOME": str(tmp_path)}
    plain |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    words = [sys.executable, "-c", THERE_AND_BACK, str(tmp_path / "model")]
    done = subprocess.run(words, capture_output=True, text=True, env=plain, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert COMMIT in done.stdout
    assert sorted(handler.files) == ["README.md", "config.json", "model.safetensors", "text/tokenizer.json"]
    assert handler.asked[0] == ("/api/repos/create", "Bearer hf_x")
    assert b'load("me/clap")' in handler.files["README.md"]


def test_without_a_network_it_says_so(small):
    with pytest.raises(UserError, match="me/clap: cannot be pushed to the hub"):
        small.push_to_hub("me/clap")
    with pytest.raises(UserError, match="me clap: cannot be pushed"):
        small.push_to_hub("me clap")
