"""What can go wrong in the middle of a run; mistakes in the input raise ValueError or TypeError before it."""

from __future__ import annotations

__all__ = ["ConvergenceError", "IntegrationError", "NonFiniteError", "StepLimitError"]


class IntegrationError(RuntimeError):
    """A run that could not go on; the message says where and what to do."""


class NonFiniteError(IntegrationError):
    """A state became infinite or NaN.

    Attributes:
        time: when, the time at the end of the step.
        row: the first such row of the batch.
        step: number of the step within the run.
    """

    def __init__(self, message: str, *, time: float, row: int, step: int) -> None:
        super().__init__(message)
        self.time, self.row, self.step = time, row, step


class ConvergenceError(IntegrationError):
    """An implicit step whose equation was not solved.

    Attributes:
        iterations: how many were made.
        residual: what was left of the worst row, relative to its size.
        row: that row.
    """

    def __init__(self, message: str, *, iterations: int, residual: float, row: int) -> None:
        super().__init__(message)
        self.iterations, self.residual, self.row = iterations, residual, row


class StepLimitError(IntegrationError):
    """An adaptive solver that used up its steps.

    Attributes:
        t: how far it came.
        y: the state there.
        n_steps: how many steps it made.
    """

    def __init__(self, message: str, *, t: float, y: object, n_steps: int) -> None:
        super().__init__(message)
        self.t, self.y, self.n_steps = t, y, n_steps
