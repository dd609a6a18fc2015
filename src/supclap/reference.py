"""SupCLAP in plain torch, to be read and copied: the oracle of every test. Nothing in supclap imports it.

t, a: [n, d] text and audio embeddings, pair i belongs together; r: [n] or a number, the semantic radius.
Both directions of the base are summed. `siglip` weighs each direction by 1/2, which is the published loss.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def unit(x: Tensor) -> Tensor:
    length: Tensor = x.norm(dim=1, keepdim=True)
    return x / length


def support(query: Tensor, positive: Tensor, r: Tensor, renormalize: bool = True) -> Tensor:
    """query + R u, with u the unit vector from the query to its positive."""
    step = positive - query
    far = step.norm(dim=1, keepdim=True) >= 1e-6
    u = torch.where(far, step / torch.where(far, step, 1.0).norm(dim=1, keepdim=True), 0.0)
    moved = query + r[:, None] * u
    if not renormalize:
        return moved
    length = moved.norm(dim=1, keepdim=True)
    return moved / torch.where(length > 1e-2, length, 1e-2)


def softmax_rows(logits: Tensor, same_clip: Tensor, positive_in: bool = True) -> Tensor:
    """-log softmax of the diagonal; `positive_in=False` is the printed equation of L_svr, and DCL."""
    diagonal = torch.eye(len(logits), dtype=torch.bool)
    out = same_clip & ~diagonal
    lonely = (out | diagonal).all(1)[:, None]  # no negative left: costs nothing
    kept = torch.where(lonely, 0.0, logits.masked_fill(out if positive_in else out | diagonal, -torch.inf))
    return torch.where(lonely[:, 0], 0.0, kept.logsumexp(1) - logits.diagonal())


def sigmoid_rows(logits: Tensor, same_clip: Tensor) -> Tensor:
    """Sum over keys of -log sigmoid(logit) on the diagonal, -log sigmoid(-logit) beside it."""
    diagonal = torch.eye(len(logits), dtype=torch.bool)
    return -F.logsigmoid(torch.where(diagonal, logits, -logits)).masked_fill(same_clip & ~diagonal, 0.0).sum(1)


def supclap(
    t: Tensor, a: Tensor, r_t: Tensor | float = 0.0, r_a: Tensor | float = 0.0, *, kind: str = "infonce",
    alpha: float = 1.0, beta: float = 0.0, directions: tuple[str, ...] = ("t2a", "a2t"), renormalize: bool = True,
    positive_in: bool = True, scale: Tensor | float = 1 / 0.07, bias: Tensor | float = 0.0,
    same_clip: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
    """Loss and its unweighted parts; kind: infonce, dcl or siglip."""
    t, a = unit(t), unit(a)
    same = torch.zeros(len(t), len(t), dtype=torch.bool) if same_clip is None else same_clip

    def cost(query: Tensor, key: Tensor, inside: bool) -> Tensor:
        logits = scale * query @ key.T + bias
        return sigmoid_rows(logits, same).mean() / 2 if kind == "siglip" else softmax_rows(logits, same, inside).mean()

    base = cost(t, a, kind != "dcl") + cost(a, t, kind != "dcl")
    svr, constraint = torch.zeros_like(base), torch.zeros_like(base)
    distance = (a - t).norm(dim=1).detach()
    for name, query, key, r in (("t2a", t, a, r_t), ("a2t", a, t, r_a)):
        if name in directions:
            r = torch.as_tensor(r, dtype=t.dtype).expand(len(t))
            svr = svr + cost(support(query, key, r, renormalize), key, positive_in and kind != "dcl")
            constraint = constraint + (F.relu(r - distance) + F.relu(-r)).mean()
    return base + alpha * svr + beta * constraint, {"base": base, "svr": svr, "constraint": constraint}
