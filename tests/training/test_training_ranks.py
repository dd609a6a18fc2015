"""A step over 2 processes is that step in 1 process, float64, one launch for all cases."""

import pytest
import torch
import torch.multiprocessing
from training_ranks import ROWS, run, work

from supclap.training.processes import Team, _buckets


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(work, args=(2, str(folder)), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("case", ["infonce", "siglip", "chunks"])
def test_two_processes_step_as_one(ranks, case):
    """With a parameter that one of them does not need, one that none needs, the gradient cache, SigLIP's bias start."""
    want = run(case, Team())
    torch.testing.assert_close(sum(rank[case]["losses"] for rank in ranks) / 2, want["losses"], rtol=1e-9, atol=0)
    for rank in ranks:
        assert rank[case]["state"].keys() == want["state"].keys()
        for name, value in want["state"].items():
            torch.testing.assert_close(rank[case]["state"][name], value, rtol=1e-8, atol=1e-10, msg=name)
        # Weight decay would move what has a gradient of zero.
        assert not rank[case]["unused"] and not want["unused"]
    first, second = (rank[case]["state"] for rank in ranks)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_chunks_are_the_whole_batch_over_ranks(ranks):
    for name, value in ranks[0]["infonce"]["state"].items():
        torch.testing.assert_close(ranks[0]["chunks"]["state"][name], value, rtol=1e-8, atol=1e-10)


def test_batchnorm_has_the_same_statistics_everywhere(ranks):
    """Each process normalises its own rows, so the weights are not those of one process, but no process differs."""
    first, second = (rank["norm"]["state"] for rank in ranks)
    assert all(torch.equal(first[name], second[name]) for name in first)
    want = run("norm", Team())["state"]
    # The mean of both halves' means is the whole batch's, for the one step that starts from the same weights.
    assert not torch.equal(first["model.audio.0.weight"], want["model.audio.0.weight"])
    mean = "model.audio.1.running_mean"
    assert (first[mean] - want[mean]).abs().max() < 0.02 < want[mean].abs().max()


@pytest.mark.parametrize("case", ["infonce", "chunks"])
@pytest.mark.parametrize("how", ["input", "embedding", "loss"])
def test_what_is_not_finite_in_one_process_is_skipped_by_all(ranks, case, how):
    for rank in ranks:
        found = rank[f"skip {how} {case}"]
        assert found["skipped"] and found["same"] and found["then"] and found["loss"].isfinite()
        # The clips of the process that met it, told to all.
        assert found["ids"] and set(found["ids"]) <= set(range(ROWS // 2, ROWS))


def test_dropout_differs_between_processes(ranks):
    assert not torch.equal(ranks[0]["dropout"], ranks[1]["dropout"])


def test_buckets_hold_everything_once(monkeypatch):
    monkeypatch.setattr("supclap.training.processes.BUCKET", 10)
    sizes = [4, 7, 3, 25, 1, 1, 9]
    found = [[value.numel() for value in some] for some in _buckets([torch.zeros(size) for size in sizes])]
    assert found == [[4], [7, 3], [25], [1, 1], [9]]
