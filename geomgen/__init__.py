"""Learned models, training, data, reports, benches and the command line, on top of ``samplers``.

Nothing heavy is imported here, so that ``geomgen --help`` stays fast: import what you need from the
subpackages, for instance ``geomgen.absorbing``.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
