"""ClapModel and sentence-transformers folders as dual models, with tiny random weights."""

import json

import numpy as np
import pytest
import torch
from encoder_cases import noise

from supclap.encoders.dual import DualSettings
from supclap.encoders.hub import load
from supclap.encoders.small import learn
from supclap.schema import UserError
from supclap.settings import make

transformers = pytest.importorskip("transformers")
RATE = 48000


def write_clap(folder, fusion=False):
    """A ClapModel of a few thousand weights, as transformers saves it."""
    torch.manual_seed(0)
    text = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text |= {"intermediate_size": 64, "max_position_embeddings": 34, "pad_token_id": 0}
    audio = {"hidden_size": 32, "patch_embeds_hidden_size": 16, "depths": [1, 1], "num_attention_heads": [2, 2]}
    audio |= {"num_hidden_layers": 2, "enable_fusion": fusion}
    config = transformers.ClapConfig(text_config=text, audio_config=audio, projection_dim=32)
    transformers.ClapModel(config).save_pretrained(folder)
    extractor = transformers.ClapFeatureExtractor(truncation="fusion" if fusion else "rand_trunc")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=learn(["a dog barks"], 300), pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
    transformers.ClapProcessor(extractor, tokenizer).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def clap(tmp_path_factory):
    return write_clap(tmp_path_factory.mktemp("clap"))


SOUNDS = [(noise(count, seed), RATE) for seed, count in enumerate((1, 5000, 480000, 700000))]


@pytest.mark.parametrize("fusion", [False, True])
def test_clap_rows_are_those_of_transformers(tmp_path, fusion):
    folder = write_clap(tmp_path, fusion)
    model = load(f"hf:{folder}")
    whole = transformers.ClapModel.from_pretrained(folder).eval()
    extractor = transformers.ClapFeatureExtractor.from_pretrained(folder)
    sound = noise(480000, 9)
    with torch.no_grad():
        held = extractor(sound, sampling_rate=RATE, return_tensors="pt")
        longer = torch.zeros(1, 1, dtype=torch.bool)
        audio = whole.get_audio_features(input_features=held["input_features"], is_longer=longer).pooler_output
        tokens = model.text.tokenizer(["a dog barks"], return_tensors="pt")
        text = whole.get_text_features(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
        ).pooler_output
    unit = torch.nn.functional.normalize
    assert np.abs(model.embed_audio([(sound, RATE)]) - unit(audio, dim=-1).numpy()).max() < 1e-5
    assert np.abs(model.embed_text(["a dog barks"]) - unit(text, dim=-1).numpy()).max() < 1e-5
    assert model.scale.item() == pytest.approx(whole.logit_scale_t.exp().item())
    rows = model.embed_audio(SOUNDS)
    assert np.abs(model.embed_audio(SOUNDS[::-1], batch_size=2)[::-1] - rows).max() < 1e-5


def test_clap_trains_and_is_saved(clap, tmp_path):
    model = load(f"hf:{clap}").train()
    optimiser = torch.optim.SGD([value for value in model.parameters() if value.requires_grad], lr=0.1)
    samples = torch.from_numpy(np.stack([noise(48000, 1), noise(48000, 2)]))
    tokens = model.text.tokenize(["a dog", "rain"], ["eng", "eng"])
    before = model.embed_text(["a dog"])
    (model.project_audio(model.audio(samples)) * model.encode_tokens(tokens)).sum().backward()
    optimiser.step()
    model.eval()
    rows, texts = model.embed_audio(SOUNDS[:2]), model.embed_text(["a dog"])
    assert np.abs(texts - before).max() > 1e-4
    model.save(tmp_path)
    again = load(tmp_path)
    assert np.array_equal(again.embed_audio(SOUNDS[:2]), rows) and np.array_equal(again.embed_text(["a dog"]), texts)


def test_clap_is_frozen_in_part(clap):
    """The first parts are those nearest to the sound."""
    names = [type(part).__name__ for part in load(f"hf:{clap}").audio.parts()]
    assert names[0] == "ClapAudioPatchEmbed" and names.count("ClapAudioStage") == 2
    halves = {f"{part}_tower": {"kind": f"clap-{part}", "model": str(clap)} for part in ("audio", "text")}
    model = make(DualSettings, halves | {"head": "none", "freeze_audio_parts": 1}).build()
    still = {name for name, value in model.audio.named_parameters() if not value.requires_grad}
    assert still and all("patch_embed" in name for name in still)
    with pytest.raises(UserError, match="checkpointing=True: neither tower"):
        make(DualSettings, halves | {"head": "none", "checkpointing": True}).build()


def test_a_clap_folder_is_known_by_its_config(clap):
    assert np.array_equal(load(clap).embed_text(["a"]), load(f"hf:{clap}").embed_text(["a"]))


def test_code_of_a_folder_is_refused(clap, tmp_path):
    config = json.loads((clap / "config.json").read_text())
    proof = tmp_path / "proof"
    (tmp_path / "mine.py").write_text(f"open({str(proof)!r}, 'w')\n")
    (tmp_path / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "mine.Model"}}))
    with pytest.raises(UserError, match="trust_remote_code=True"):
        load(f"hf:{tmp_path}")
    assert not proof.exists()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('{"model_type": "bert"}', "is a 'bert'"),
        ("{", "not JSON"),
        ("{}", "neither a supclap"),
        ('{"format": 9}', "format=9"),
    ],
)
def test_folders_that_are_no_model(tmp_path, config, words):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(UserError, match=words):
        load(tmp_path)


def test_names_that_are_no_model(tmp_path):
    for name in ("nothing", str(tmp_path / "none"), "./a/b", "hf:nowhere/none", "st:nowhere/none", "nobody/nothing"):
        with pytest.raises(UserError, match="no such folder|cannot load|no config|hub"):
            load(name)


def test_sentence_transformers(clap, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    library.SentenceTransformer(str(clap), device="cpu").save_pretrained(str(tmp_path / "st"))
    model, whole = load(f"st:{tmp_path / 'st'}"), load(f"hf:{clap}")
    assert model.sample_rate == RATE and model.frozen_audio and model.frozen_text
    assert np.abs(model.embed_audio(SOUNDS) - whole.embed_audio(SOUNDS)).max() < 1e-4
    assert np.abs(model.embed_text(["a dog", "rain"]) - whole.embed_text(["a dog", "rain"])).max() < 1e-5
    model.save(tmp_path / "saved")
    assert np.abs(load(tmp_path / "saved").embed_text(["a dog"]) - model.embed_text(["a dog"])).max() < 1e-6


def test_code_of_a_sentence_transformers_folder_is_refused(tmp_path):
    pytest.importorskip("sentence_transformers")
    proof = tmp_path / "proof"
    (tmp_path / "mine.py").write_text(f"open({str(proof)!r}, 'w')\nclass Module: pass\n")
    (tmp_path / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "mine.Module"}]')
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UserError, match="mine.Module.*trust_remote_code"):
        load(f"st:{tmp_path}")
    assert not proof.exists()


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ("{", "not JSON"),
        ('["a"]', "no list of modules"),
        ('{"type": "x"}', "no list of modules"),
        ('[{"type": "mine.Model"}]', "wants to run code of its own.*trust_remote_code=True"),
    ],
)
def test_sentence_transformers_folders_that_are_damaged_or_bring_code(tmp_path, modules, words):
    pytest.importorskip("sentence_transformers")
    (tmp_path / "modules.json").write_text(modules)
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'proof')!r}, 'w')\n")
    with pytest.raises(UserError, match=words):
        load(f"st:{tmp_path}")
    assert not (tmp_path / "proof").exists()
