"""Objectives in other people's trainers: transformers' Trainer and sentence-transformers.

The learnable numbers of an objective (radius, temperature) must reach the trainer's optimizer, and its checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from supclap.objectives.objective import Objective
from supclap.schema import UserError

FILE = "objective.safetensors"


def attach(
    model: nn.Module, objective: Objective, *, scale: Callable[[], Tensor] | None = None
) -> Callable[..., Tensor]:
    """What transformers' ``Trainer(compute_loss_func=...)`` takes, for a model that gives audio and text embeddings.

    The objective becomes ``model.objective``: trained, saved and restored with the model. ``labels`` of a batch, where
    there are any, are clip ids. ``scale`` hands in the model's own, e.g. ``lambda: model.logit_scale_a.exp()``.
    """
    model.objective = objective

    def loss(outputs: Any, labels: Tensor | None = None, num_items_in_batch: Any = None) -> Tensor:
        audio, text = (_embeddings(outputs, name) for name in ("audio_embeds", "text_embeds"))
        return objective(audio, text, clip_ids=labels, scale=None if scale is None else scale()).loss  # type: ignore[no-any-return]

    return loss


def _embeddings(outputs: Any, name: str) -> Tensor:
    found = outputs.get(name) if isinstance(outputs, dict) else getattr(outputs, name, None)
    if found is None:
        raise UserError(f"the model's output has no {name!r}; pass a model that gives audio_embeds and text_embeds")
    return found  # type: ignore[no-any-return]


class PairLoss(nn.Module):
    """A sentence-transformers loss over two columns: the first asks (text), the second answers (audio, or text).

    A "label" column of integers, where there is one, says which rows are of one clip. sentence-transformers saves the
    model alone: add ``callbacks=[keep(loss)]`` to its trainer, and the objective goes with each checkpoint.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """The objective's loss of one batch."""
        rows = [self.model(features)["sentence_embedding"] for features in sentence_features]
        if len(rows) != 2:
            raise UserError(f"the dataset has {len(rows)} columns to embed; give it two: what asks and what answers")
        ids = None if labels is None or labels.numel() == 0 else labels
        return self.objective(rows[1], rows[0], clip_ids=ids).loss  # type: ignore[no-any-return]


def keep(module: nn.Module) -> Any:
    """A callback for transformers-like trainers that saves an objective (or a PairLoss's) with each checkpoint."""
    from transformers import TrainerCallback

    objective = module.objective if isinstance(module, PairLoss) else module

    class Keep(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if state.is_world_process_zero:
                save(objective, _checkpoint(args, state))

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if state.global_step:  # resumed
                restore(objective, _checkpoint(args, state))

    return Keep()


def _checkpoint(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"


def save(objective: nn.Module, folder: str | os.PathLike[str]) -> Path:
    """Write what an objective has learned beside a model."""
    from safetensors.torch import save_file

    Path(folder).mkdir(parents=True, exist_ok=True)
    target = Path(folder) / FILE
    save_file({name: value.detach().contiguous() for name, value in objective.state_dict().items()}, target)
    return target


def restore(objective: nn.Module, folder: str | os.PathLike[str]) -> None:
    """Read it back into an objective of the same make."""
    from safetensors.torch import load_file

    source = Path(folder) / FILE
    if not source.is_file():
        raise UserError(f"{source}: no such file; was the run saved without callbacks=[keep(loss)]?")
    try:
        objective.load_state_dict(load_file(source))
    except RuntimeError as error:
        raise UserError(f"{source} is of another objective ({' '.join(str(error).split())})") from error
