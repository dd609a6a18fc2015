"""The SupCLAP method as composable objectives: a base, Support Vector Regularization on top, a radius inside."""

from supclap.objectives.cacl import CACL
from supclap.objectives.objective import Base
from supclap.objectives.radius import DynamicRadius, FixedRadius, RandomRadius, StaticRadius
from supclap.objectives.reweight import SimpleReweight
from supclap.objectives.sigmoid import SigLIP
from supclap.objectives.softmax import DCL, InfoNCE
from supclap.objectives.svr import SVR
from supclap.schema import LossOutput, Term

__all__ = [
    "CACL",
    "DCL",
    "SVR",
    "Base",
    "DynamicRadius",
    "FixedRadius",
    "InfoNCE",
    "LossOutput",
    "RandomRadius",
    "SigLIP",
    "SimpleReweight",
    "StaticRadius",
    "Term",
]
