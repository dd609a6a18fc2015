"""Settings: frozen, strict, read back as written, overridden field by field."""

from typing import Any

import pytest

from supclap.schema import UserError, unknown
from supclap.settings import kind_of, make, override, read, save, settings, write


@settings
class Round:
    size: int = 3


@settings
class Square:
    side: float = 1.0
    name: str | None = None


SHAPES = {"round": Round, "square": Square}


@settings
class Box:
    shape: kind_of(SHAPES) = Round()
    lid: Square = Square()
    epochs: int = 1
    names: tuple[str, ...] = ()


def test_written_settings_read_back_equal(tmp_path):
    box = Box(shape=Square(side=2.5, name="x"), names=("a", "b"))
    assert make(Box, write(box)) == box
    save(box, tmp_path / "box.json")
    assert read(Box, tmp_path / "box.json") == box


def test_a_kind_is_written_by_its_name_and_a_users_class_by_its_path():
    assert write(Box())["shape"] == {"kind": "round", "size": 3}
    own = make(Box, {"shape": {"kind": f"{__name__}:Own", "weight": 2}})
    assert isinstance(own.shape, Own)
    assert make(Box, write(own)) == own


@settings
class Own:
    weight: int = 1


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        Box().epochs = 2


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"epoch": 2}, "did you mean 'epochs'"),
        ({"lid.sid": 2}, "lid.side"),
        ({"shape.sizes": 2}, "size"),
        ({"shape.kind": "rund"}, "did you mean 'round'"),
        ({"epochs": 1.5}, "epochs=1.5"),
        ({"epochs": "many"}, "epochs='many'"),
        ({"lid": 3}, "lid"),
        ({"shape.kind": "no.such.module:Thing"}, "module:Class"),
    ],
)
def test_a_wrong_override_is_one_line_that_helps(changes: dict[str, Any], line):
    with pytest.raises(UserError, match=line) as caught:
        override(Box(), changes)
    assert "\n" not in str(caught.value)


def test_overrides_keep_what_they_do_not_name():
    box = override(Box(), {"lid.side": "2", "epochs": "7"})
    assert (box.lid, box.epochs) == (Square(side=2.0), 7)
    assert override(box, {"lid.name": "top"}).lid == Square(side=2.0, name="top")
    # A kind is applied before the fields that belong to it, whatever the order they are given in.
    assert override(box, {"shape.side": 4, "shape.kind": "square"}).shape == Square(side=4)
    assert override(box, {"shape": "square"}).shape == Square()
    assert override(box, {"names": '["p", "q"]'}).names == ("p", "q")


def test_bad_files_are_one_line(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read(Box, tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        read(Box, tmp_path / "bad.json")


def test_unknown_names_the_nearest():
    assert str(unknown("loss", "infonse", ["infonce", "dcl"])) == (
        "loss='infonse' is unknown; did you mean 'infonce'? choose from dcl, infonce"
    )
