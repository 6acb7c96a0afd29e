"""Denoisers: conditional laws of the clean tokens given the revealed ones, exact or from a network."""

from .base import Denoiser, ExactDenoiser, clean_log_probs
from .codes import ParityDenoiser, PermutationDenoiser
from .markov_chain import MarkovChainDenoiser
from .mixture import MixtureDenoiser
from .networks import LogitsDenoiser, NucleusDenoiser, ScoreDenoiser, nucleus, score_from_x0, x0_from_score
from .product import ProductDenoiser
from .tabular import TabularDenoiser

__all__ = [
    "Denoiser",
    "ExactDenoiser",
    "LogitsDenoiser",
    "MarkovChainDenoiser",
    "MixtureDenoiser",
    "NucleusDenoiser",
    "ParityDenoiser",
    "PermutationDenoiser",
    "ProductDenoiser",
    "ScoreDenoiser",
    "TabularDenoiser",
    "clean_log_probs",
    "nucleus",
    "score_from_x0",
    "x0_from_score",
]
