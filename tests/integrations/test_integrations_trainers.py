"""Other people's loops, the real libraries: the radius is in the optimizer, moves, is saved and restored."""

import pytest
import torch

from supclap.integrations.trainers import PairLoss, attach, keep, restore, save
from supclap.objectives import SVR, DynamicRadius, InfoNCE, SigLIP, StaticRadius
from supclap.schema import UserError

WORDS = "a dog cat bird car rain barks sings passes falls far near loud soft slow fast".split()


def learned(objective):
    return {name: value.detach().clone() for name, value in objective.named_parameters()}


def moved(objective, before):
    return all(not torch.equal(value, before[name]) for name, value in objective.named_parameters())


def equal(one, other):
    one, other = one.state_dict(), other.state_dict()
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=0)


def test_a_plain_torch_loop(tmp_path):
    torch.manual_seed(0)
    audio, text = torch.randn(8, 6), torch.randn(8, 5)
    towers = torch.nn.ModuleDict({"audio": torch.nn.Linear(6, 4), "text": torch.nn.Linear(5, 4)})
    # Three lines: build, give its parameters to the optimizer, call.
    objective = SVR(InfoNCE(learnable=True), radius=DynamicRadius(batch_size=8))
    optimizer = torch.optim.Adam([*towers.parameters(), *objective.parameters()], lr=0.01)
    objective.check_optimizer(optimizer)
    before, losses = learned(objective), []
    for _ in range(5):
        out = objective(towers["audio"](audio), towers["text"](text))
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        losses.append(out.loss.item())
    assert losses[-1] < losses[0]
    assert moved(objective, before)
    save(objective, tmp_path)
    fresh = SVR(InfoNCE(learnable=True), radius=DynamicRadius(batch_size=8))
    restore(fresh, tmp_path)
    equal(fresh, objective)
    with pytest.raises(UserError, match="another objective"):
        restore(SVR(InfoNCE(), radius=StaticRadius()), tmp_path)
    with pytest.raises(UserError, match="no such file"):
        restore(fresh, tmp_path / "nowhere")


def tiny_clap():
    from transformers import ClapConfig, ClapModel

    text = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    audio = {
        "patch_embeds_hidden_size": 8, "depths": [1, 1], "num_attention_heads": [2, 2], "hidden_size": 16,
        "num_classes": 4,
        "num_mel_bins": 16, "spec_size": 64, "patch_size": 4, "patch_stride": [4, 4], "window_size": 4,
    }  # fmt: skip
    torch.manual_seed(0)
    return ClapModel(
        ClapConfig(
            text_config={**text, "max_position_embeddings": 32, "projection_dim": 12},
            audio_config={**audio, "projection_dim": 12},
            projection_dim=12,
        )
    )


class Sounds(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, place):
        draw = torch.Generator().manual_seed(place)
        return {
            "input_ids": torch.randint(3, 50, (7,), generator=draw),
            "attention_mask": torch.ones(7, dtype=torch.long),
            "input_features": torch.randn(1, 32, 16, generator=draw),
            "is_longer": torch.zeros(1, dtype=torch.bool),
            "labels": torch.tensor(place // 2),
        }


def clap_trainer(folder, steps):
    from transformers import Trainer, TrainingArguments

    model = tiny_clap()
    loss = attach(model, SVR(InfoNCE(), radius=StaticRadius(0.5)), scale=lambda: model.logit_scale_a.exp())
    arguments = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=6, max_steps=steps, save_steps=5, learning_rate=1e-3,
        report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no", seed=0, data_seed=0,
    )  # fmt: skip
    return Trainer(model=model, args=arguments, train_dataset=Sounds(), compute_loss_func=loss)


def test_transformers_trainer_with_clap(tmp_path):
    trainer = clap_trainer(tmp_path / "whole", 7)
    model = trainer.model
    before, scale = learned(model.objective), model.logit_scale_a.item()
    trainer.train()
    model.objective.check_optimizer(trainer.optimizer)
    assert moved(model.objective, before) and model.logit_scale_a.item() != scale
    saved = next((tmp_path / "whole").glob("checkpoint-5")) / "model.safetensors"
    from safetensors.torch import load_file

    assert "objective.radii.t2a.radius" in load_file(saved)
    # Resumed from step 5 in a fresh trainer, the run ends where the whole one did.
    other = clap_trainer(tmp_path / "resumed", 7)
    other.train(resume_from_checkpoint=str(saved.parent))
    equal(other.model.objective, model.objective)
    torch.testing.assert_close(other.model.logit_scale_a, model.logit_scale_a, rtol=0, atol=0)


def test_a_model_without_both_embeddings_is_refused():
    loss = attach(torch.nn.Linear(2, 2), InfoNCE())
    with pytest.raises(UserError, match="audio_embeds"):
        loss({"text_embeds": torch.randn(2, 2)})


def sentence_trainer(folder, steps):
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    tokenizer = Tokenizer(
        models.WordLevel({word: place for place, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
    loss = PairLoss(model, SVR(SigLIP(), radius=DynamicRadius()))
    rows = [(f"a {one} {two}", f"{two} {three}") for one, two, three in zip(WORDS, WORDS[3:], WORDS[5:], strict=False)]
    data = Dataset.from_dict({"text": [row[0] for row in rows], "sound": [row[1] for row in rows]})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=4, max_steps=steps, save_steps=5, learning_rate=1e-2,
        report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no", seed=0, data_seed=0,
    )  # fmt: skip
    return SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=loss, callbacks=[keep(loss)]
    )


def test_sentence_transformers(tmp_path):
    trainer = sentence_trainer(tmp_path / "whole", 7)
    objective = trainer.loss.objective
    before = learned(objective)
    trainer.train()
    objective.check_optimizer(trainer.optimizer)
    assert moved(objective, {name: value for name, value in before.items()})
    saved = tmp_path / "whole" / "checkpoint-5"
    assert (saved / "objective.safetensors").is_file()
    # The trainer of the resumed run stands in the same folder, as its users do.
    other = sentence_trainer(tmp_path / "whole", 7)
    other.train(resume_from_checkpoint=str(saved))
    equal(other.loss.objective, objective)
    assert objective.base.started and objective.base.bias_start != 0


def test_three_columns_are_refused():
    loss = PairLoss(torch.nn.Identity(), InfoNCE())
    features = [{"sentence_embedding": torch.randn(4, 3)} for _ in range(3)]
    with pytest.raises(UserError, match="3 columns"):
        loss(features)
    assert loss(features[:2], torch.tensor([1, 2, 3, 4])).isfinite()
