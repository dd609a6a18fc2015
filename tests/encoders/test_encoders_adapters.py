"""SONAR and transformers' audio encoders, with tiny random weights."""

import numpy as np
import pytest
import torch
from encoder_cases import noise

from supclap.encoders import languages
from supclap.encoders.dual import DualSettings
from supclap.encoders.hfaudio import HfAudioSettings
from supclap.encoders.hub import load
from supclap.encoders.small import learn
from supclap.encoders.sonar import SonarSettings, from_fairseq2, to_fairseq2
from supclap.schema import UserError
from supclap.settings import make

transformers = pytest.importorskip("transformers")
TEXTS = ["a dog barks", "un chien aboie", "", "rain falls on a roof while a dog barks"]
LANGUAGES = ["eng", "fra", "deu", "jpn"]


def write_sonar(folder, layers=4):
    """A tiny M2M100 encoder and a tokenizer in NLLB's order: <s> <pad> </s> <unk>, pieces, language marks."""
    torch.manual_seed(0)
    config = transformers.M2M100Config(
        vocab_size=320, d_model=16, encoder_layers=layers, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=40,
        pad_token_id=1, bos_token_id=0, eos_token_id=2, scale_embedding=True, activation_function="relu",
    )  # fmt: skip
    from safetensors.torch import save_file
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

    encoder = M2M100Encoder(config)
    save_file({key: value.clone() for key, value in encoder.state_dict().items()}, folder / "model.safetensors")
    config.save_pretrained(folder)
    marks = [
        f"{code}_{script}" for code, script in (("eng", "Latn"), ("fra", "Latn"), ("deu", "Latn"), ("jpn", "Jpan"))
    ]
    base = learn(TEXTS * 3, 300, special=["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=base, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=marks,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def sonar(tmp_path_factory):
    return write_sonar(tmp_path_factory.mktemp("sonar"))


def rows(tower, texts=TEXTS, languages=LANGUAGES):
    with torch.no_grad():
        return tower.eval()(**tower.tokenize(texts, languages))


def test_sonar_is_mean_of_true_states_with_marks(sonar):
    tower = SonarSettings(model=str(sonar)).build()
    found = rows(tower)
    for row, text, language in zip(found, TEXTS, LANGUAGES, strict=True):
        mark = {"eng": "eng_Latn", "fra": "fra_Latn", "deu": "deu_Latn", "jpn": "jpn_Jpan"}[language]
        pieces = tower.tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
        ids = torch.tensor([[tower.tokenizer.convert_tokens_to_ids(mark), *pieces, 2]])
        with torch.no_grad():
            states = tower.model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
        assert (row - states.mean(0)).abs().max() < 1e-5
    other = rows(tower, TEXTS[:1], ["fra"])
    assert (other - found[:1]).abs().max() > 1e-4
    with pytest.raises(UserError, match="no mark zul_Latn"):
        tower.tokenize(["a"], ["zul"])
    with pytest.warns(UserWarning, match="cut to the 40"):
        assert torch.isfinite(rows(tower, ["dog " * 99], ["eng"])).all()


def test_sonar_positions_and_scale_are_the_published_ones(sonar):
    """Embedding x sqrt(width), plus sine then cosine, from position 2 on."""
    tower = SonarSettings(model=str(sonar)).build()
    model, width = tower.model, 16
    frequency = 10000 ** (-torch.arange(width // 2) / (width // 2 - 1))
    angle = torch.arange(2, 7)[:, None] * frequency
    ids = torch.tensor([[300, 10, 11, 12, 2]])
    expected = model.embed_tokens.weight[ids[0]] * width**0.5 + torch.cat([angle.sin(), angle.cos()], 1)
    if getattr(model.embed_tokens, "embed_scale", 1.0) == 1.0 and not hasattr(model, "embed_scale"):
        pytest.skip("the library keeps its scale elsewhere")
    seen = []
    handle = model.layers[0].register_forward_pre_hook(
        lambda _, args, kwargs: seen.append((args, kwargs)), with_kwargs=True
    )
    with torch.no_grad():
        model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids))
    handle.remove()
    args, kwargs = seen[0]
    states = args[0] if args else kwargs["hidden_states"]
    assert (states[0] - expected).abs().max() < 1e-4


def test_fairseq2_keys_both_ways(sonar, tmp_path):
    tower = SonarSettings(model=str(sonar)).build()
    state = {key: torch.randn_like(value) for key, value in tower.model.state_dict().items()}
    theirs = to_fairseq2(state)
    expected = {
        "encoder_frontend.embed.weight", "layer_norm.weight", "encoder.layers.0.self_attn.output_proj.bias",
        "encoder.layers.3.ffn.inner_proj.weight", "encoder.layers.1.ffn.output_proj.bias",
        "encoder.layers.2.ffn_layer_norm.weight", "encoder.layers.2.self_attn_layer_norm.weight",
        "encoder.layers.0.self_attn.q_proj.weight",
    }  # fmt: skip
    assert expected <= theirs.keys() and len(theirs) == len(state)
    assert not any("fc1" in key or "final_layer_norm" in key or "out_proj" in key for key in theirs)
    embed = state["embed_tokens.weight"]
    assert torch.equal(theirs["encoder_frontend.embed.weight"][:5], embed[[1, 3, 0, 2, 4]])
    back = from_fairseq2(theirs)
    assert back.keys() == state.keys() and all(torch.equal(back[key], state[key]) for key in state)
    tower.model.load_state_dict(state)
    torch.save({"model": theirs}, tmp_path / "sonar.pt")
    again = SonarSettings(model=str(sonar), fairseq2=str(tmp_path / "sonar.pt")).build()
    assert torch.equal(rows(again), rows(tower))


def test_sonar_depth_and_random_weights(sonar):
    whole, half = SonarSettings(model=str(sonar)).build(), SonarSettings(model=str(sonar), layers=2).build()
    assert len(half.model.layers) == 2 and len(whole.model.layers) == 4
    own, other = whole.model.state_dict(), half.model.state_dict()
    assert all(torch.equal(own[key], other[key]) for key in other)
    noisy = SonarSettings(model=str(sonar), layers=2, random=True).build()
    assert not torch.equal(noisy.model.layers[0].fc1.weight, half.model.layers[0].fc1.weight)
    with pytest.raises(UserError, match="layers=9"):
        SonarSettings(model=str(sonar), layers=9).build()
    with pytest.raises(UserError, match="models fetch sonar"):
        SonarSettings().build()


def test_sonar_travels(sonar, tmp_path):
    fields = {"audio_tower": "small-audio", "text_tower": {"kind": "sonar", "model": str(sonar), "layers": 2}}
    model = make(DualSettings, fields).build().eval()
    model.save(tmp_path)
    assert np.array_equal(load(tmp_path).embed_text(TEXTS, LANGUAGES), model.embed_text(TEXTS, LANGUAGES))


def write_audio(folder, kind):
    torch.manual_seed(0)
    if kind == "ast":
        config = transformers.ASTConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_length=100
        )
        transformers.ASTModel(config).save_pretrained(folder)
        transformers.ASTFeatureExtractor(max_length=100).save_pretrained(folder)
    else:
        config = transformers.WhisperConfig(
            d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=16, max_source_positions=100, vocab_size=60,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        )  # fmt: skip
        transformers.WhisperModel(config).save_pretrained(folder)
        transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=2).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["ast", "whisper"])
def test_audio_encoders_of_transformers(tmp_path, kind):
    folder = write_audio(tmp_path / kind, kind)
    fields = {"audio_tower": {"kind": "hf", "model": str(folder)}, "text_tower": "small-text", "head": "linear"}
    model = make(DualSettings, fields).build().eval()
    assert (model.sample_rate, model.window_seconds) == (16000, {"ast": 1.0, "whisper": 2.0}[kind])
    sounds = [(noise(count, count), 16000) for count in (1, 4000, 16000, 50000)]
    found = model.embed_audio(sounds, batch_size=1)
    assert np.abs(model.embed_audio(sounds[::-1], batch_size=7)[::-1] - found).max() < 1e-5
    whole = transformers.AutoModel.from_pretrained(folder).eval()
    extractor = transformers.AutoFeatureExtractor.from_pretrained(folder)
    held = extractor(sounds[2][0], sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        row = model.audio(torch.from_numpy(sounds[2][0])[None])[0]
        if kind == "ast":
            expected = whole(held["input_values"]).pooler_output[0]
        else:
            expected = whole.get_encoder()(held["input_features"]).last_hidden_state[0, :50].mean(0)
    assert (row - expected).abs().max() < 1e-5
    model.audio(torch.from_numpy(sounds[2][0])[None]).sum().backward()
    assert any(value.grad is not None for value in model.audio.parameters())
    model.save(tmp_path / "saved")
    assert np.array_equal(load(tmp_path / "saved").embed_audio(sounds), model.embed_audio(sounds))


def write_raw(folder, kind):
    """Encoders of raw samples and of features without a fixed length."""
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    if kind == "pe-audio":
        dac = {"model_type": "dac", "encoder_hidden_size": 4, "downsampling_ratios": [2, 4], "codebook_dim": 8}
        shape |= {"num_key_value_heads": 2, "head_dim": 8}
        config = transformers.PeAudioEncoderConfig(**shape, dac_config=dac | {"hidden_size": 16})
        encoder = transformers.PeAudioEncoder(config)
        with torch.no_grad():  # as it starts, its class token hears next to nothing
            for value in encoder.parameters():
                value.mul_(20.0 if value.dim() > 1 else 1.0)
        encoder.save_pretrained(folder)
        transformers.PeAudioFeatureExtractor(sampling_rate=16000, hop_length=8).save_pretrained(folder)
        return folder
    if kind == "wav2vec2-bert":
        config = transformers.Wav2Vec2BertConfig(**shape, feature_projection_input_dim=160, vocab_size=32)
        transformers.Wav2Vec2BertModel(config).save_pretrained(folder)
        transformers.SeamlessM4TFeatureExtractor().save_pretrained(folder)
        return folder
    nothing = "hidden_dropout attention_dropout activation_dropout feat_proj_dropout layerdrop mask_time_prob"
    shape |= dict.fromkeys(nothing.split(), 0.0)
    shape |= {"conv_dim": [8] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "vocab_size": 32}
    name = {"wav2vec2": "Wav2Vec2", "hubert": "Hubert"}[kind]
    config = getattr(transformers, f"{name}Config")(**shape)
    getattr(transformers, f"{name}Model")(config).save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["wav2vec2", "hubert", "wav2vec2-bert", "pe-audio"])
def test_audio_encoders_without_a_fixed_length(tmp_path, kind):
    folder = write_raw(tmp_path / kind, kind)
    fields = {"audio_tower": {"kind": "hf", "model": str(folder)}, "text_tower": "small-text", "head": "linear"}
    model = make(DualSettings, fields).build().eval()
    sounds = [(noise(count, count), 16000) for count in (1, 1600, 16000, 50000, 7)]
    found = model.embed_audio(sounds, batch_size=1)
    assert np.isfinite(found).all() and np.abs(found[2] - found[3]).max() > 1e-4
    assert np.abs(model.embed_audio(sounds[::-1], batch_size=7)[::-1] - found).max() < 1e-5
    model.train()
    assert np.abs(model.embed_audio(sounds) - found).max() < 1e-5
    model.eval().save(tmp_path / "saved")
    assert np.array_equal(load(tmp_path / "saved").embed_audio(sounds), model.embed_audio(sounds))


def test_an_audio_encoder_is_frozen_in_part_and_recomputes(tmp_path):
    """The first parts are those nearest to the sound, the layers last: seven convolutions, then what follows."""
    folder = write_raw(tmp_path / "raw", "wav2vec2")
    start = {"text_tower": "small-text", "head": "linear", "freeze_audio_parts": 4}
    start["audio_tower"] = {"kind": "hf", "model": str(folder)}
    model = make(DualSettings, start).build()
    names = [type(part).__name__ for part in model.audio.parts()]
    assert names[0] == "Wav2Vec2FeatureEncoder" and names[-1] == "Wav2Vec2EncoderLayer" and len(names) == 6
    moving = {name for name, value in model.audio.named_parameters() if value.requires_grad}
    assert moving and all("encoder.layers" in name or "masked" in name for name in moving)
    grads = []
    for flag in (False, True):
        torch.manual_seed(0)
        model = make(DualSettings, start | {"checkpointing": flag}).build().eval()
        model.audio.train(flag)  # the library recomputes in training mode alone
        model.audio(torch.from_numpy(noise(8000, 1))[None]).square().sum().backward()
        grads.append({name: value.grad for name, value in model.audio.named_parameters() if value.grad is not None})
    assert grads[0].keys() == grads[1].keys() != set()
    assert all(torch.allclose(grads[0][name], grads[1][name], atol=1e-5) for name in grads[0])


def test_audio_folders_that_are_none(tmp_path):
    with pytest.raises(UserError, match="cannot be loaded"):
        HfAudioSettings(model=str(tmp_path)).build()


def test_the_languages_are_those_of_nllb():
    """202 codes with their scripts; each is found by its three letters, unless another script is the usual one."""
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

    assert set(FAIRSEQ_LANGUAGE_CODES) == languages.CODES and len(languages.CODES) == 202
    for code in languages.CODES:
        assert languages.full(code) == code and languages.full(code[:3])[:3] == code[:3]
    assert [languages.full(code) for code in ("zho", "cat", "jpn", "arb")] == [
        "zho_Hans", "cat_Latn", "jpn_Jpan", "arb_Arab",
    ]  # fmt: skip
    for code, near in (("FRA", "fra"), ("de", "deu"), ("en-US", "eng"), ("zh_CN", "zho"), ("qqq", "eng")):
        with pytest.raises(UserError, match=f"did you mean '{near}'"):
            languages.full(code)
