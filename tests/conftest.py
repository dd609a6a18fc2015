"""Shared by all tests: where the large files are, one thread, no network."""

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest

SHARED = Path(os.environ.get("SUPCLAP_SHARED", Path(__file__).parents[2] / "shared")).resolve()


def pytest_collection_modifyitems(items):
    """Tests marked `shared` are skipped, visibly, where the files are not."""
    if (SHARED / "data").is_dir():
        return
    skip = pytest.mark.skip(reason=f"needs the files of SUPCLAP_SHARED (looked in {SHARED})")
    for item in items:
        if "shared" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def shared():
    """The folder of real recordings, weights and reference outputs; mark the test with `shared`."""
    return SHARED


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's cache."""
    if "SUPCLAP_TEST_CACHE" not in os.environ:
        os.environ["SUPCLAP_TEST_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    monkeypatch.setenv("SUPCLAP_CACHE", os.environ["SUPCLAP_TEST_CACHE"])
