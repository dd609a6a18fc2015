"""RunConfig: written and read back the same, short names, presets before dotted fields, recipes by name and by file."""

import json

import pytest

from supclap.objectives.settings import PRESETS, StaticSettings, SVRSettings
from supclap.schema import UserError
from supclap.settings import make, read, save, write
from supclap.training.config import RECIPES, RunConfig, changed, parse, recipe
from supclap.training.optim import OptimSettings


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_json(name, tmp_path):
    config = recipe(name)
    assert make(RunConfig, json.loads(json.dumps(write(config)))) == config
    save(config, tmp_path / "run.json")
    assert read(RunConfig, tmp_path / "run.json") == config


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_by_name(preset):
    assert changed(RunConfig(), {"objective": preset}).objective == PRESETS[preset]


def test_presets_go_in_before_dotted_fields():
    for order in (("objective.alpha", "objective"), ("objective", "objective.alpha")):
        values = {"objective.alpha": "0.5", "objective": "siglip-uni-static"}
        config = changed(RunConfig(), {name: values[name] for name in order})
        assert config.objective.alpha == 0.5
        assert config.objective.directions == ("t2a",)
        assert config.objective.radius == StaticSettings()


def test_short_names_and_text_values():
    config = recipe("small", parse(["data=my.csv", "epochs=3", "lr=1e-4", "batch_size=8", "seed=7", "train.chunk=4"]))
    assert (config.data.path, config.train.epochs, config.optim.lr) == ("my.csv", 3, 1e-4)
    assert (config.train.batch_size, config.seed, config.train.chunk) == (8, 7, 4)
    assert changed(config, {"train.chunk": "null"}).train.chunk is None
    assert changed(config, {"audio_tower": "mn04"}).audio_tower.weights == "mn04"
    assert recipe("small", data="a.csv", epochs=2).train.epochs == 2
    assert recipe("small", objective=SVRSettings(alpha=0.25)).objective.alpha == 0.25


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"lrr": 1}, "lrr.*did you mean 'lr'"),
        ({"optim.lrr": 1}, "optim.lrr.*optim.lr"),
        ({"objective": "bi-dynamc"}, "bi-dynamc.*'bi-dynamic'"),
        ({"objective.alfa": 1}, "alfa.*'alpha'"),
        ({"audio_tower": "nm04"}, "nm04.*'mn04'"),
        ({"epochs": "1.5"}, "epochs"),
        ({"epochs": 0}, "epochs=0"),
        ({"optim.weight_decay": 0.1}, "adamw"),
        ({"optim.clip_norm": 0}, "clip_norm"),
        ({"lr": -1}, "optim.lr=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"data.max_seconds": 0}, "data.max_seconds=0"),
        ({"train.max_skipped": -1}, "train.max_skipped=-1.*from 0 to 1"),
        ({"evaluate.protocol": "mlclp"}, "evaluate.protocol.*did you mean 'mlclap'"),
        ({"precision": "fp8"}, "precision"),
        ({"train.lora.rnk": 4}, "rnk.*did you mean 'train.lora.rank'"),
    ],
)
def test_mistakes_are_one_line_with_the_way_out(fields, words):
    with pytest.raises(UserError, match=words) as error:
        changed(RunConfig(), fields)
    assert "\n" not in str(error.value)


def test_a_part_that_was_left_out_is_made_by_its_fields():
    config = recipe("small", parse(["train.lora.rank=4", 'train.lora.towers=["text"]', "train.freeze_audio_parts=2"]))
    assert (config.train.lora.rank, config.train.lora.towers) == (4, ("text",))
    assert config.train.freeze_audio_parts == 2


def test_words_that_are_no_fields():
    with pytest.raises(UserError, match="name=value"):
        parse(["lr", "1e-4"])


def test_paper_recipe_is_the_papers():
    config = recipe("paper/bi-dynamic")
    assert config.optim == OptimSettings(name="adam", lr=5e-5)
    assert (config.train.batch_size, config.train.epochs, config.evaluate.select_on) == (24, 10, "test")
    svr = config.objective
    assert (svr.alpha, svr.beta, svr.directions, svr.radius.batch_size) == (1.0, None, ("t2a", "a2t"), 24)
    assert svr.build().beta == 0.01


def test_a_recipe_of_ones_own(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from supclap.training.config import recipe\n"
        "def cold():\n    return recipe('small', {'objective.base.temperature': 0.01})\n"
        "def wrong():\n    return 3\n"
    )
    assert recipe(f"{mine}:cold", epochs=4).objective.base.temperature == 0.01
    with pytest.raises(UserError, match="colt.*cold"):
        recipe(f"{mine}:colt")
    with pytest.raises(UserError, match="RunConfig"):
        recipe(f"{mine}:wrong")
    with pytest.raises(UserError, match="no such file"):
        recipe(f"{tmp_path}/none.py:cold")
    with pytest.raises(UserError, match="smal.*'small'"):
        recipe("smal")
