"""Whether a change changes training: 50 fixed steps on another commit and on this tree, compared loss by loss.

    python tools/compare.py BASE [--steps 50]

Prints the first step whose loss differs, or that none does; exit status 1 where one does. A refactor must print none.
The steps are this file's own small towers with objectives of the tree they run on, so that only what the two trees
have in common is called. Losses are compared to the last bit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def objectives():
    """Name to objective; one that a tree does not have yet, or builds otherwise, is left out of the comparison."""
    from supclap import objectives as ours

    return {
        "infonce": lambda: ours.InfoNCE(),
        "siglip": lambda: ours.SigLIP(),
        "dcl": lambda: ours.DCL(),
        "bi-static": lambda: ours.SVR(ours.InfoNCE(), radius=ours.StaticRadius(0.5)),
        "bi-dynamic": lambda: ours.SVR(ours.InfoNCE(), radius=ours.DynamicRadius(batch_size=24)),
        "siglip-uni-dynamic": lambda: ours.SVR(ours.SigLIP(), radius=ours.DynamicRadius(), directions=("t2a",)),
    }


def train(build, steps):
    """The losses of some steps: two small towers on drawn pairs, every fourth batch with a clip twice."""
    import torch

    torch.manual_seed(0)
    objective = build()
    towers = [torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16)) for _ in range(2)]
    parameters = [value for module in (*towers, objective) for value in module.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-3)
    draw, losses = torch.Generator().manual_seed(1), []
    for step in range(steps):
        meaning = torch.randn(24, 20, generator=draw)
        views = [meaning + 0.5 * torch.randn(24, 20, generator=draw) for _ in towers]
        ids = torch.arange(24) // (2 if step % 4 == 3 else 1)
        loss = objective(*(tower(view) for tower, view in zip(towers, views, strict=True)), clip_ids=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    return losses


def measure(steps):
    """Losses by objective, of the tree that PYTHONPATH names; None where the tree cannot build or run it."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    found = {}
    for name, build in objectives().items():
        try:
            found[name] = train(build, steps)
        except (AttributeError, TypeError) as error:
            print(f"{name}: not in this tree ({error})", file=sys.stderr)
            found[name] = None
    return found


def losses_of(source, steps):
    """What `measure` says in a fresh process on another source folder."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, str(Path(__file__).resolve()), "--measure", "--steps", str(steps)]
    done = subprocess.run(words, env=environment, cwd=source, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"compare: the steps fail on {source} (see above)")
    return json.loads(done.stdout)


def report(before, after, base):
    """Print what differs; how many objectives do."""
    differing = 0
    for name in after:
        one, other = before.get(name), after[name]
        if one is None or other is None:
            print(f"{name}: not in both trees")
            continue
        step = next((k for k, pair in enumerate(zip(one, other, strict=True), 1) if pair[0] != pair[1]), None)
        if step is None:
            print(f"{name}: no loss differs in {len(one)} steps")
            continue
        differing += 1
        was, now = float.fromhex(one[step - 1]), float.fromhex(other[step - 1])
        print(f"{name}: step {step} differs first: {was!r} at {base}, {now!r} here ({abs(now / was - 1):.1e} relative)")
    return differing


def git(*words, **options):
    return subprocess.run(["git", "-C", str(ROOT), *words], check=False, capture_output=True, text=True, **options)


def main():
    parser = argparse.ArgumentParser(description="50 fixed training steps on two commits: the first loss that differs.")
    parser.add_argument("base", nargs="?", help="the commit to compare this tree with")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.steps)))
        return 0
    if options.base is None:
        parser.error("BASE is missing: which commit shall this tree be compared with?")
    found = git("rev-parse", "--verify", "--quiet", f"{options.base}^{{commit}}")
    if found.returncode:
        sys.exit(f"compare: BASE={options.base!r} is no commit of this repository; see git log --oneline")
    commit = found.stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "base"
        added = git("worktree", "add", "--detach", str(tree), commit)
        if added.returncode:
            sys.exit(f"compare: {added.stderr.strip()}")
        try:
            before = losses_of(tree / "src", options.steps)
        finally:
            git("worktree", "remove", "--force", str(tree))
    return 1 if report(before, losses_of(ROOT / "src", options.steps), commit[:8]) else 0


if __name__ == "__main__":
    sys.exit(main())
