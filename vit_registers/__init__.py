"""Post-hoc registers for vision transformers. Nothing is here yet: the package reserves its place."""

from __future__ import annotations

__all__: list[str] = []
