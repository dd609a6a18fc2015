"""What the core alone must do: an objective steps, embeddings are scored."""

import numpy as np
import torch

from supclap.evaluation import retrieval
from supclap.objectives import SVR, DynamicRadius, InfoNCE

torch.manual_seed(0)
audio, text = torch.nn.Parameter(torch.randn(24, 16)), torch.randn(24, 16)
objective = SVR(InfoNCE(), radius=DynamicRadius(batch_size=24))
optimizer = torch.optim.Adam([audio, *objective.parameters()], lr=0.05)
objective.check_optimizer(optimizer)
losses = []
for _ in range(30):
    out = objective(audio, text)
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    losses.append(out.loss.item())
assert losses[-1] < losses[0] / 2, losses
scores = retrieval.evaluate(audio.detach().numpy(), text.numpy(), np.arange(24))
assert scores["t2a"]["R@1"] > 50, scores["t2a"]
print("core: objective and scores work")
