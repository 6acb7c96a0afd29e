"""Right values of geometry and dynamics, made in 34-digit arithmetic without torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import manifolds  # noqa: F401  first, since geoopt warns unless we import it


@pytest.fixture(scope="session")
def hamiltonian_oracles(shared: Path) -> dict[str, float | list[float] | str]:
    """Name -> number, list of numbers, or a closed form in words."""
    content = json.loads((shared / "oracles" / "hamiltonian.json").read_text(encoding="utf-8"))
    return {name: number(entry["value"]) for name, entry in content.items()}


def number(value: str | list[str]) -> float | list[float] | str:
    """Numbers are stored as decimal strings."""
    try:
        return [float(entry) for entry in value] if isinstance(value, list) else float(value)
    except (TypeError, ValueError):
        return value  # type: ignore[return-value]
