"""Numerical algorithms that draw samples: ``samplers.absorbing`` now, ``samplers.hamiltonian`` planned.

Import from the subpackages; nothing heavy is imported here. Random numbers are keyed
(``samplers.streams``): a pure function of (key, row, step or token), whatever the batch.
"""

from __future__ import annotations

__all__: list[str] = []
