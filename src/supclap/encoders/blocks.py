"""Pre-norm transformer blocks on torch's fused attention, with the key names of timm and CED."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    """Multi-head self-attention; keys outside the mask are not seen."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x_nsw: Tensor, keys_ns: Tensor | None) -> Tensor:
        """[n, s, w] to [n, s, w]; ``keys_ns`` is True where a token counts."""
        n, s, w = x_nsw.shape
        query, key, value = self.qkv(x_nsw).view(n, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mask = None if keys_ns is None else keys_ns[:, None, None, :]
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.proj(seen.transpose(1, 2).reshape(n, s, w))  # type: ignore[no-any-return]


class Mlp(nn.Module):
    """Linear, GELU, Linear."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return self.fc2(F.gelu(self.fc1(x)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and MLP, each behind a layer norm and beside a shortcut."""

    def __init__(self, width: int, heads: int, ratio: float = 4.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn, self.mlp = Attention(width, heads), Mlp(width, int(width * ratio))

    def forward(self, x_nsw: Tensor, keys_ns: Tensor | None) -> Tensor:
        """[n, s, w] to [n, s, w]."""
        x_nsw = x_nsw + self.attn(self.norm1(x_nsw), keys_ns)
        return x_nsw + self.mlp(self.norm2(x_nsw))  # type: ignore[no-any-return]


def run(blocks: nn.ModuleList, x_nsw: Tensor, keys_ns: Tensor | None, recompute: bool) -> Tensor:
    """All blocks in order; ``recompute`` trades time for memory in the backward pass."""
    for block in blocks:
        if recompute and torch.is_grad_enabled():
            x_nsw = checkpoint(block, x_nsw, keys_ns, use_reentrant=False)
        else:
            x_nsw = block(x_nsw, keys_ns)
    return x_nsw
