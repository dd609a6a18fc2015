"""Bad input: a UserError that names the argument, the value and the way out; never a NaN, a hang or a traceback."""

import pytest
import torch
from objective_cases import Margin, batch

from supclap.objectives import (
    CACL,
    DCL,
    SVR,
    DynamicRadius,
    FixedRadius,
    InfoNCE,
    RandomRadius,
    SigLIP,
    SimpleReweight,
    StaticRadius,
)
from supclap.schema import UserError

AUDIO, TEXT = (row.detach().float() for row in batch())
NAN, ZERO, INF = AUDIO.clone(), AUDIO.clone(), AUDIO.clone()
NAN[2, 1], ZERO[3], INF[1, 0] = torch.nan, 0.0, torch.inf


class NoCost:
    names = ("t2a",)

    def terms(self):
        return []


class Scalar(Margin):
    def cost(self, logits, positive, excluded):
        return super().cost(logits, positive, excluded).mean()


def svr(**options):
    return lambda: SVR(InfoNCE(), **{"radius": StaticRadius(), **options})


def call(objective, *args, **options):
    return lambda: objective(*args, **options)


BUILT = {
    "variant": (lambda: SimpleReweight(variant="gradients"), "variant='gradients'", "gradient, logit, weight"),
    "temperature": (lambda: InfoNCE(0.0), "temperature=0.0", "above 0"),
    "temperature nan": (lambda: DCL(float("nan")), "temperature=nan", "above 0"),
    "temperature limit": (lambda: InfoNCE(0.005, learnable=True), "temperature=0.005", "0.01 or more"),
    "temperature word": (lambda: InfoNCE("0.07"), "temperature='0.07'", "pass a float"),
    "temperature parameter": (
        lambda: InfoNCE(torch.nn.Parameter(torch.tensor(0.07))), "temperature=Parameter containing: tensor(", "float",
    ),
    "siglip word": (lambda: SigLIP("10"), "scale='10'", "pass a float"),
    "alpha None": (svr(alpha=None), "alpha=None", "pass a float"),
    "beta word": (svr(beta="x"), "beta='x'", "pass a float"),
    "renormalize": (svr(renormalize="no"), "renormalize='no'", "True, False"),
    "directions None": (svr(directions=None), "directions=None", "'a2t'"),
    "initial word": (lambda: StaticRadius("a"), "initial='a'", "pass a float"),
    "fraction word": (lambda: FixedRadius(fraction="a"), "fraction='a'", "pass a float"),
    "high word": (lambda: RandomRadius("a"), "high='a'", "pass a float"),
    "batch_size float": (lambda: DynamicRadius(batch_size=24.0), "batch_size=24.0", "pass an int"),
    "hidden float": (lambda: DynamicRadius(hidden=2.5), "hidden=2.5", "pass an int"),
    "reduce": (lambda: InfoNCE(reduce="max"), "reduce='max'", "'mean'"),
    "siglip scale": (lambda: SigLIP(scale=-1.0), "scale=-1.0", "above 0"),
    "siglip bias": (lambda: SigLIP(bias=float("inf")), "bias=inf", "leave it out"),
    "validate": (lambda: InfoNCE(validate="once"), "validate='once'", "'never'"),
    "same_clip": (lambda: CACL(same_clip="drop"), "same_clip='drop'", "'exclude'"),
    "denominator": (svr(denominator="positives"), "denominator='positives'", "'negatives'"),
    "denominator sigmoid": (
        lambda: SVR(SigLIP(), radius=StaticRadius(), denominator="negatives"), "SigLIP has no", "softmax base",
    ),
    "control": (lambda: SVR(SimpleReweight(), radius=StaticRadius()), "base=SimpleReweight", "use InfoNCE()"),
    "no cost": (lambda: SVR(NoCost(), radius=StaticRadius()), "base=NoCost", "lacks cost"),
    "base class": (lambda: SVR(InfoNCE, radius=StaticRadius()), "base=InfoNCE", "InfoNCE()"),
    "twice": (lambda: SVR(svr()(), radius=StaticRadius()), "base=SVR", "lacks names"),
    "radius class": (svr(radius=StaticRadius), "radius=StaticRadius", "StaticRadius()"),
    "radius number": (svr(radius=0.5), "radius=0.5", "StaticRadius()"),
    "directions": (svr(directions=("t2a", "t2v")), "directions='t2v'", "'a2t'"),
    "no directions": (svr(directions=()), "directions=()", "no term"),
    "jacobian": (svr(jacobian="maybe"), "jacobian='maybe'", "'off'"),
    "probabilities": (svr(probabilities="none"), "probabilities='none'", "'base'"),
    "constrain": (svr(constrain="embeddings"), "constrain='embeddings'", "'all'"),
    "detach": (svr(detach=("key",)), "detach='key'", "'positive'"),
    "alpha": (svr(alpha=float("nan")), "alpha=nan", "finite"),
    "initial": (lambda: StaticRadius(float("inf")), "initial=inf", "finite"),
    "cap": (lambda: StaticRadius(cap="min"), "cap='min'", "'distance'"),
    "batch_size": (lambda: DynamicRadius(batch_size=1), "batch_size=1", "None for any batch"),
    "hidden": (lambda: DynamicRadius(hidden=0), "hidden=0", "1 or more"),
    "both": (lambda: FixedRadius(value=1.0, fraction=0.5), "value=1.0, fraction=0.5", "exactly one"),
    "neither": (lambda: FixedRadius(), "value=None, fraction=None", "exactly one"),
    "fixed nan": (lambda: FixedRadius(value=float("nan")), "value=nan", "finite"),
    "high": (lambda: RandomRadius(high=0.0), "high=0.0", "above 0"),
}  # fmt: skip
CALLED = {
    "type": (call(InfoNCE(), AUDIO.tolist(), TEXT), "audio is list", "tensor"),
    "rank": (call(InfoNCE(), AUDIO[0], TEXT), "audio has shape [5]", "[n, d]"),
    "rows": (call(InfoNCE(), AUDIO, TEXT[:4]), "text has shape [4, 5]", "[6, 5]"),
    "width": (call(InfoNCE(), AUDIO, TEXT[:, :4]), "text has shape [6, 4]", "one pair"),
    "dtype": (call(InfoNCE(), AUDIO, TEXT.double()), "torch.float64", "text.to(audio.dtype)"),
    "integers": (call(InfoNCE(), AUDIO.long(), TEXT), "torch.int64", "floating-point"),
    "device": (call(InfoNCE(), AUDIO, TEXT.to("meta")), "text is on meta", "text.to(audio.device)"),
    "nan": (call(InfoNCE(), NAN, TEXT), "audio row 2 holds nan", "diverged"),
    "inf": (call(InfoNCE(), AUDIO, INF), "text row 1 holds inf", "diverged"),
    "zero": (call(InfoNCE(), AUDIO, ZERO), "text row 3 is zero", "empty"),
    "tiny": (call(InfoNCE(), AUDIO * 1e-30, TEXT), "audio row 0 has entries of size", "rescale"),
    "huge": (call(InfoNCE(), AUDIO * 1e30, TEXT), "audio row 0 has entries of size", "rescale"),
    "one row": (call(InfoNCE(), AUDIO[:1], TEXT[:1]), "audio has 1 row", "batch of 2"),
    "no row": (call(InfoNCE(), AUDIO[:0], TEXT[:0]), "audio has 0 rows", "batch of 2"),
    "batch_size": (call(svr(radius=DynamicRadius(batch_size=24))(), AUDIO, TEXT), "batch_size=24", "DynamicRadius()"),
    "ids length": (call(InfoNCE(), AUDIO, TEXT, clip_ids=[1, 2]), "clip_ids has shape [2] for 6 rows", "one id a row"),
    "ids floats": (call(InfoNCE(), AUDIO, TEXT, clip_ids=TEXT[:, 0]), "clip_ids has dtype", "integers"),
    "ids words": (call(InfoNCE(), AUDIO, TEXT, clip_ids=["a"] * 6), "clip_ids=['a'", "integer a row"),
    "ids None": (call(InfoNCE(), AUDIO, TEXT, clip_ids=[None] * 6), "clip_ids=[None", "integer a row"),
    "ids many words": (call(InfoNCE(), AUDIO, TEXT, clip_ids=["a long name"] * 600), "...", "integer a row"),
    "scale": (call(InfoNCE(), AUDIO, TEXT, scale=0.0), "scale=0.0", "above 0"),
    "scale tensor": (call(InfoNCE(), AUDIO, TEXT, scale=torch.tensor(-1.0)), "scale=-1.0", "above 0"),
    "scale shape": (call(InfoNCE(), AUDIO, TEXT, scale=torch.ones(6)), "scale has shape [6]", "one number"),
    "bias": (call(SigLIP(), AUDIO, TEXT, bias=float("nan")), "bias=nan", "finite"),
    "bias word": (call(SigLIP(), AUDIO, TEXT, bias="x"), "bias='x'", "number"),
    "anchor": (call(CACL(), AUDIO, TEXT), "anchor_text=None", "pass anchor_text="),
    "anchor rows": (call(CACL(), AUDIO, TEXT, anchor_text=TEXT[:2]), "anchor_text has shape [2, 5]", "[6, 5]"),
    "anchor nan": (call(CACL(), AUDIO, TEXT, anchor_text=NAN), "anchor_text row 2", "nan"),
    "radius shape": (call(svr(radius=lambda s, d, e, n: s)(), AUDIO, TEXT), "'t2a' has shape [6, 6]", "[6]"),
    "radius type": (call(svr(radius=lambda s, d, e, n: 0.5)(), AUDIO, TEXT), "'t2a' has shape float", "[6]"),
    "cost shape": (call(SVR(Scalar(), radius=StaticRadius()), AUDIO, TEXT), "cost() gave shape []", "one number a row"),
    "group": (call(InfoNCE(process_group="all"), AUDIO, TEXT), "process_group is given", "init_process_group"),
}


@pytest.mark.parametrize(
    "case", [*BUILT.values(), *CALLED.values()], ids=[*BUILT, *(f"call {name}" for name in CALLED)]
)
def test_each_mistake_is_one_clear_line(case):
    act, what, way_out = case
    with pytest.raises(UserError) as caught:
        act()
    line = str(caught.value)
    assert what in line and way_out in line and "\n" not in line and len(line) < 250


def test_values_are_checked_at_the_first_call_and_when_a_loss_is_not_finite():
    objective = InfoNCE()
    objective(AUDIO, TEXT)
    objective(ZERO, TEXT)  # finite, so nobody looks again
    with pytest.raises(UserError, match="row 2 holds nan"):
        objective(NAN, TEXT)
    with pytest.raises(UserError, match="scale=inf"):
        objective(AUDIO, TEXT, scale=torch.tensor(torch.inf))


def test_always_and_never():
    always, never = InfoNCE(validate="always"), InfoNCE(validate="never")
    always(AUDIO, TEXT)
    with pytest.raises(UserError, match="row 3 is zero"):
        always(ZERO, TEXT)
    assert never(NAN, TEXT).loss.isnan()
    with pytest.raises(UserError, match="batch of one"):
        never(AUDIO[:1], TEXT[:1])


def test_a_diverged_radius_is_not_blamed_on_the_rows():
    objective = SVR(InfoNCE(), radius=StaticRadius())
    objective(AUDIO, TEXT)
    objective.radii["t2a"].radius.data.fill_(torch.nan)
    assert objective(AUDIO, TEXT).loss.isnan()


def test_check_optimizer_names_what_is_missing():
    objective = SVR(InfoNCE(learnable=True), radius=StaticRadius())
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UserError, match=r"base\.temperature\.log_scale, radii\.t2a\.radius, radii\.a2t\.radius"):
        objective.check_optimizer(optimizer)
    optimizer.add_param_group({"params": objective.parameters()})
    objective.check_optimizer(optimizer)
    # The radius that was handed in is a pattern: putting it into the optimizer does not train the objective's own.
    pattern = StaticRadius()
    with pytest.raises(UserError, match="radii"):
        SVR(InfoNCE(), radius=pattern).check_optimizer(torch.optim.SGD(pattern.parameters(), lr=0.1))
