"""Both ways to compute an objective: the dense path where it applies, and the generic one everywhere."""

from contextlib import nullcontext

import pytest

from supclap.objectives import dense


@pytest.fixture(scope="module", params=["dense", "generic"])
def both_paths(request):
    """The module's tests run once on each path."""
    with nullcontext() if request.param == "dense" else dense.switched_off():
        yield
