"""The method a second time, in float64: row by row, every base, every radius, every argument of SVR, by plain autograd.

It takes what an objective was built with, not what it made of it, and its learned numbers by name. Nothing of
`supclap.objectives` is called.
"""

import math
import zlib

import torch
import torch.nn.functional as F

WAYS = {"e2a": "t2a", "a2e": "a2t", "o2a": "t2a", "a2o": "a2t", "t2a": "t2a", "a2t": "a2t"}
WORD = (1 << 64) - 1


def unit(rows):
    return rows / rows.norm(dim=1, keepdim=True)


def row_cost(base, z, i, left_out, positive_in, w):
    """What row i pays for its logits; `left_out` are keys that are neither right nor wrong."""
    wrong = [j for j in range(len(z)) if j != i and j not in left_out]
    if base == "siglip":
        return F.softplus(-z[i]) + F.softplus(z[wrong]).sum()
    if base == "own-plain":
        return torch.relu(1.0 + z[wrong] - z[i]).sum()
    if not wrong:
        return 0.0 * z.sum()
    if base == "reweight-logit":
        z = torch.stack([z[j] + w if j == i else z[j] for j in range(len(z))])
    cost = torch.logsumexp(z[wrong + [i] if positive_in else wrong], 0) - z[i]
    if base == "reweight-weight":
        return w.exp() * cost
    if base == "reweight-gradient":
        return cost + (w - 1) * (-cost).exp().detach() * z[i]
    return cost


def terms_of(base, rows):
    """name, direction, query, key, weight."""
    names = {"cacl": ["e2a", "a2e", "o2a", "a2o", "e2o", "o2e"]}.get(base, ["t2a", "a2t"])
    weight = {"cacl": 1 / 6, "siglip": 1 / 2, "infonce-mean": 1 / 2}.get(base, 1.0)
    return [(name, WAYS.get(name), rows[name[0]], rows[name[2]], weight) for name in names]


def numbers_of(base, rows, same, numbers, given):
    """Scale and bias."""
    scale, bias = given
    if base == "siglip":
        own = 10.0 * numbers["log_scale"].exp() if scale is None else scale
        if bias is None:
            n = len(same)
            apart = [(i, j) for i in range(n) for j in range(n) if i != j and j not in same[i]]
            mean = sum((rows["t"][i] @ rows["a"][j]).item() for i, j in apart) / max(len(apart), 1)
            bias = -math.log(n - 1) - own.detach() * mean + numbers["bias_learned"]
        return own, bias
    if base == "own-plain":
        return (1.0 if scale is None else scale), 0.0
    if scale is None:
        scale = 1 / 0.07
        if base == "infonce-learnable":
            scale = 1 / 0.1 * numbers["temperature.log_scale"].exp()
    return scale, 0.0 if bias is None or base.startswith("reweight") else bias


def predictor_row(similarities, i, left_out, length):
    """What a Dynamic radius reads: [positive, ...], the batch in its order, or the sorted negatives resampled."""
    right = similarities[i].item()
    others = [j for j in range(len(similarities)) if j != i]
    kept = [similarities[j].item() for j in others if j not in left_out]
    if length is not None:
        kept = sorted(kept, reverse=True) or [right]
        places = [place * (len(kept) - 1) / (length - 2) for place in range(length - 1)]
        low = [min(int(place), len(kept) - 1) for place in places]
        high = [min(place + 1, len(kept) - 1) for place in low]
        mixed = [kept[a] + (p - a) * (kept[b] - kept[a]) for p, a, b in zip(places, low, high, strict=True)]
        return torch.tensor([right, *mixed], dtype=torch.float64)
    mean = sum(kept) / len(kept) if kept else right
    row = [right, *(mean if j in left_out else similarities[j].item() for j in others)]
    return torch.tensor(row, dtype=torch.float64)


def drawn(i, name, call=0):
    """SplitMix64 over (row, call, term) in Python's own integers."""
    state = (i + 1) * 0x9E3779B97F4A7C15 + (call + 1) * 0xD1B54A32D192ED03 + zlib.crc32(f"0/{name}".encode())
    state &= WORD
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = ((state ^ (state >> shift)) * factor) & WORD
    return ((state ^ (state >> 31)) >> 11) * 2.0**-53


def raw_radius(kind, similarities, i, left_out, d, name, numbers, call):
    """R of row i before a cap; d is held. `call` counts how often this radius was asked before."""
    if kind.startswith("static"):
        return numbers["radius"]
    if kind.startswith("dynamic"):
        length = None if kind in ("dynamic-fixed", "dynamic-capped") else 24
        h = predictor_row(similarities, i, left_out, length)
        for layer in (0, 2, 4):
            h = numbers[f"predictor.{layer}.weight"] @ h + numbers[f"predictor.{layer}.bias"]
            h = h.relu() if layer < 4 else h
        return h[0]
    fixed = {"value": 0.3, "zero": 0.0, "fraction": 0.5 * d, "random": drawn(i, name, call) * d}
    if kind == "function":
        return 0.1 * similarities[i].tanh() + 0.2 * d
    return torch.as_tensor(fixed[kind], dtype=torch.float64)


def support(query, positive, radius, renormalize, jacobian, detach):
    """The support vector of one row, every edge as the method has it."""
    step = (positive.detach() if "positive" in detach else positive) - query
    d = step.norm()
    if d < 1e-6:
        moved = query
    else:
        u = step / d
        moved = query + radius * (u.detach() if jacobian == "off" or "u" in detach else u)
    if not renormalize:
        return moved
    length = moved.norm()
    return moved / length if length > 1e-2 else moved / 1e-2


def method(base, audio, text, anchor=None, *, numbers, ids=None, given=(None, None), radius=None, alpha=1.0, beta=None,
           directions=("t2a", "a2t"), renormalize=True, denominator="all", shared_radius=False, jacobian="on",
           probabilities="support", constrain="radius", detach=(), same_clip="exclude"):  # fmt: skip
    """Loss, parts and capped radii; `radius` None: the base alone."""
    n = len(audio)
    rows = {"a": unit(audio), "t": unit(text), "o": unit(text), "e": None if anchor is None else unit(anchor)}
    apart = ids is None or same_clip == "negative"
    same = [[] if apart else [j for j in range(n) if j != i and ids[j] == ids[i]] for i in range(n)]
    prefix = "" if radius is None else "base."
    own = {key.removeprefix(prefix): value for key, value in numbers.items() if key.startswith(prefix)}
    scale, bias = numbers_of(base, rows, same, own, given)
    parts = {"base": 0.0, "svr": 0.0, "constraint": 0.0}
    radii, first = {}, None
    for name, way, query, key, weight in terms_of(base, rows):
        carries = radius is not None and way in directions
        if carries:
            first = first or name
            prefix = f"radii.{first if shared_radius else name}."
            mine = {k.removeprefix(prefix): v for k, v in numbers.items() if k.startswith(prefix)}
            radii[name] = []
        for i in range(n):
            z = scale * key @ query[i] + bias
            parts["base"] = parts["base"] + weight / n * row_cost(base, z, i, same[i], base != "dcl", own.get("w"))
            if not carries:
                continue
            d = (key[i] - query[i]).norm()
            held = d.detach()
            similarities = (scale * (key @ query[i])).detach()
            raw = raw_radius(radius, similarities, i, same[i], held, name, mine, shared_radius * (len(radii) - 1))
            moved = max(held, torch.tensor(1e-6, dtype=torch.float64))
            capped = moved * torch.tanh(raw / moved) if radius.endswith("capped") else raw
            radii[name].append(capped)
            sup = support(query[i], key[i], capped, renormalize, jacobian, detach)
            if probabilities == "base":
                sup = query[i].detach() + sup - sup.detach()
            inside = denominator == "all" and base != "dcl"
            cost = row_cost(base, scale * key @ sup + bias, i, same[i], inside, None)
            parts["svr"] = parts["svr"] + weight / n * cost
            limit = d if constrain == "all" else held
            parts["constraint"] = parts["constraint"] + (torch.relu(raw - limit) + torch.relu(-raw)) / n
    if beta is None:
        beta = 0.01 if radius and radius.startswith("dynamic") else 0.0
    loss = parts["base"] + alpha * parts["svr"] + beta * parts["constraint"]
    return loss, parts, {name: torch.stack(list(values)) for name, values in radii.items()}
