"""2 and 4 processes are 1 process: loss, radii, gradients of inputs and of every parameter, for every objective."""

import os
import time

import pytest
import torch
import torch.multiprocessing
from objective_cases import batch
from objective_ranks import ALL, CUT, IDS, ROWS, Toy, build, mine, result, work

from supclap.objectives import SVR, InfoNCE, SigLIP, StaticRadius

pytestmark = pytest.mark.xdist_group("objective ranks")


@pytest.fixture(scope="module", params=[2, 4], ids=["2 ranks", "4 ranks"])
def ranks(request, tmp_path_factory):
    """One launch a world size, whichever of pytest's workers comes first: what every rank found in every case."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"objective-ranks-{request.param}"
    try:
        folder.mkdir()
    except FileExistsError:
        while not (folder / "done").exists():
            time.sleep(0.2)
    else:
        try:
            torch.multiprocessing.spawn(work, args=(request.param, str(folder)), nprocs=request.param)
        finally:
            (folder / "done").touch()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(request.param)]


def whole(name, ids=True):
    return result(name, build(name), batch(11, n=ROWS, count=3), IDS if ids else None)


def equal(one, other):
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def compare(found, want):
    """Mean of the losses over ranks; gradients of inputs summed as a trainer's average does; parameters as they are."""
    equal(torch.stack([rank["loss"] for rank in found]).mean(), want["loss"])
    for part in want["parts"]:
        equal(torch.stack([rank["parts"][part] for rank in found]).mean(), want["parts"][part])
    for name in want["radius"]:
        equal(torch.cat([rank["radius"][name] for rank in found]), want["radius"][name])
    for place, grad in enumerate(want["inputs"]):
        equal(torch.cat([rank["inputs"][place] for rank in found]) / len(found), grad)
    for rank in found:
        for name, grad in want["parameters"].items():
            equal(rank["parameters"][name], grad)
        for name, value in want["state"].items():
            equal(rank["state"][name], value)


@pytest.mark.parametrize("name", ALL)
def test_many_processes_are_one(ranks, name):
    compare([rank[name] for rank in ranks], whole(name))


@pytest.mark.parametrize("name", ["infonce+static", "siglip-start+static"])
def test_a_call_alone_before_the_ranks_meet(ranks, name):
    compare([rank["alone first"][name] for rank in ranks], whole(name))


def test_without_ids(ranks):
    compare([rank["no ids"] for rank in ranks], whole("infonce+dynamic-fixed", ids=False))


def test_same_clips_across_ranks_matter(ranks):
    """IDS meet only across ranks here; were they not gathered, this would be the value without ids."""
    assert abs(whole("infonce")["loss"] - whole("infonce", ids=False)["loss"]) > 1e-3
    for world in (2, 4):
        assert any(IDS[i] == IDS[j] and i * world // ROWS != j * world // ROWS for i in range(ROWS) for j in range(i))


def test_parameters_that_start_different_are_brought_in_step():
    assert build("infonce+static", 1).radii["t2a"].radius != build("infonce+static", 0).radii["t2a"].radius
    # compare() above holds every rank's state and gradients against rank 0's start.


@pytest.mark.parametrize("name", CUT)
def test_a_gather_without_gradient_would_be_seen(ranks, name):
    """The values stay; the gradients of the inputs do not, and compare() says so."""
    cut = [rank["detached"][name] for rank in ranks]
    equal(torch.stack([rank["loss"] for rank in cut]).mean(), whole(name)["loss"])
    with pytest.raises(AssertionError):
        compare(cut, whole(name))


def test_a_mistake_on_one_rank_is_raised_on_all(ranks):
    world = len(ranks)
    expected = {
        "first uneven": "drop the last partial batch",
        "later uneven": "drop the last partial batch",
        "one wrong shape": "text has shape",
        "ids on one": f"clip_ids is given on ranks [{world - 1}] alone",
        "widths": "width",
        "one nan": "audio row 0 holds nan",
        "batch_size": f"the global batch has {4 * world} rows",
        "afterwards": "accepted",
    }
    for place, rank in enumerate(ranks):
        for case, words in expected.items():
            if case in ("one wrong shape", "one nan") and place < world - 1:
                words = f"rank {world - 1} refused its batch"
            assert words in rank["mistakes"][case], (place, case)


def test_a_group_of_ones_own(ranks):
    world = len(ranks)
    for place, rank in enumerate(ranks):
        part = mine(place, world)
        compare(
            [rank["alone"]["none"]], result("infonce", InfoNCE(), [row[part] for row in batch(11, n=ROWS)], IDS[part])
        )
    for half in (slice(0, world // 2), slice(world // 2, world)):
        part = slice(half.start * ROWS // world, half.stop * ROWS // world)
        objective = SVR(InfoNCE(), radius=StaticRadius(0.4)).double()
        want = result("infonce", objective, [row[part] for row in batch(11, n=ROWS)], IDS[part])
        compare([rank["alone"]["half"] for rank in ranks[half]], want)


def test_inside_data_parallel(ranks):
    model = Toy()
    audio, text = (row.detach() for row in batch(11, n=ROWS))
    for _ in range(2):
        model(audio, text, IDS).backward()
    for name, value in model.named_parameters():
        for rank in ranks:
            equal(rank["data parallel"][name], value.grad)


def test_a_callers_scale_and_bias(ranks):
    from objective_ranks import DynamicRadius, lively

    scale, bias = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (6.0, -1.5))
    objective = lively(SVR(SigLIP(), radius=DynamicRadius(batch_size=ROWS, hidden=8)))
    want = result("siglip", objective, batch(11, n=ROWS), IDS, scale, bias)
    found = [rank["numbers"] for rank in ranks]
    for place, grad in enumerate(want.pop("numbers")):  # they are the trainer's: it averages them
        equal(torch.stack([rank["numbers"][place] for rank in found]).mean(), grad)
    want["parameters"] = {name: grad for name, grad in want["parameters"].items() if grad is not None}
    compare(found, want)


def test_compiled(ranks):
    if len(ranks) == 4:
        return  # once is enough: it takes seconds to import
    equal(torch.stack([rank["compiled"] for rank in ranks]).mean(), whole("infonce+static")["loss"])
