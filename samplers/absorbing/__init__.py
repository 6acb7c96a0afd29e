"""Absorbing (masked) discrete diffusion: samplers, exact laws, information and bounds.

A process, a denoiser and a sampler make samples; `law.exact_law` gives the law of what they return, and `bounds` what
theory says about it. Main source: Liang, Huang, Lai, Shroff & Liang, "Absorb and Converge", NeurIPS 2025,
arXiv 2506.02318.
"""

from . import bounds, information, law
from .denoisers import (
    Denoiser,
    ExactDenoiser,
    LogitsDenoiser,
    MarkovChainDenoiser,
    MixtureDenoiser,
    NucleusDenoiser,
    ParityDenoiser,
    PermutationDenoiser,
    ProductDenoiser,
    ScoreDenoiser,
    TabularDenoiser,
    nucleus,
    score_from_x0,
    x0_from_score,
)
from .exact import FirstHitting, NextReaction, Uniformization
from .grids import CosineGrid, EqualError, Grid, KappaGrid, UniformGrid
from .law import exact_law
from .leaping import Euler, TauLeaping, Tweedie
from .process import AbsorbingProcess, UniformProcess
from .reveal import run_stages
from .sampler import Sampler, Samples
from .schedules import Constant, Cosine, CosineSquared, Geometric, Linear, LogLinear, Schedule
from .stages import RevealCount, RevealEvents, RevealFraction, Stage, TokenLaw

__all__ = [
    "AbsorbingProcess",
    "Constant",
    "Cosine",
    "CosineGrid",
    "CosineSquared",
    "Denoiser",
    "EqualError",
    "Euler",
    "ExactDenoiser",
    "FirstHitting",
    "Geometric",
    "Grid",
    "KappaGrid",
    "Linear",
    "LogLinear",
    "LogitsDenoiser",
    "MarkovChainDenoiser",
    "MixtureDenoiser",
    "NextReaction",
    "NucleusDenoiser",
    "ParityDenoiser",
    "PermutationDenoiser",
    "ProductDenoiser",
    "RevealCount",
    "RevealEvents",
    "RevealFraction",
    "Sampler",
    "Samples",
    "Schedule",
    "ScoreDenoiser",
    "Stage",
    "TabularDenoiser",
    "TauLeaping",
    "TokenLaw",
    "Tweedie",
    "UniformGrid",
    "UniformProcess",
    "Uniformization",
    "bounds",
    "exact_law",
    "information",
    "law",
    "nucleus",
    "run_stages",
    "score_from_x0",
    "x0_from_score",
]
