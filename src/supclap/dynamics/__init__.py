"""Dynamics: forces, drift and radius of any objective."""

from supclap.dynamics.drift import gradient_drift, local_and_global, measure, moved, step_drift
from supclap.dynamics.forces import Forces, forces, pair_weights
from supclap.dynamics.summary import histogram, histograms, radius_numbers, similarity_numbers

__all__ = [
    "Forces",
    "forces",
    "gradient_drift",
    "histogram",
    "histograms",
    "local_and_global",
    "measure",
    "moved",
    "pair_weights",
    "radius_numbers",
    "similarity_numbers",
    "step_drift",
]
