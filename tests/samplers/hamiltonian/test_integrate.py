"""Runs: keyed randomness, continuation, saving, time, and what goes wrong on the way."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest
import torch
from torch import Tensor

from manifolds import Sphere
from samplers.hamiltonian import (
    BAOAB,
    OBABO,
    HamiltonianSystem,
    LangevinBath,
    Mechanical,
    NonFiniteError,
    Separable,
    Verlet,
    integrate,
)

F64 = torch.float64


def square(x: Tensor) -> Tensor:
    return x.square().sum(-1) / 2


def bath(friction: float = 1.0) -> HamiltonianSystem:
    return HamiltonianSystem(Separable(square, lambda q: -q.cos().sum(-1)), noise=LangevinBath(friction, 0.5))


def free() -> HamiltonianSystem:
    return HamiltonianSystem(Separable(square, lambda q: -q.cos().sum(-1)))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


START = torch.randn(6, 4, dtype=F64, generator=seeded())
RUN = {"step_size": 0.1, "num_steps": 30}


class TestRandomness:
    def run(self, generator: torch.Generator | None) -> Tensor:
        """Momenta drawn by the library, then a run: one generator governs both."""
        system = HamiltonianSystem(Mechanical(Sphere(2), lambda q: -q[..., 2]), noise=LangevinBath(1.0, 0.5))
        q = torch.eye(3, dtype=F64)
        z0 = system.space.pack(q, system.space.gibbs_momentum(q, 0.5, generator=generator))
        return integrate(system, BAOAB(), z0, **RUN, generator=generator).states

    def test_a_generator_is_obeyed_and_leaves_the_global_state_alone(self) -> None:
        state = torch.random.get_rng_state()
        first, second, other = self.run(seeded()), self.run(seeded()), self.run(seeded(1))
        assert torch.equal(first, second) and not torch.equal(first, other)
        assert torch.equal(torch.random.get_rng_state(), state)

    def test_without_a_generator_the_usual_seed_works(self) -> None:
        torch.manual_seed(0)
        first = self.run(None)
        torch.manual_seed(0)
        assert torch.equal(first, self.run(None)) and not torch.equal(first, self.run(None))

    def test_no_number_is_drawn_where_none_is_needed(self) -> None:
        generator = seeded()
        integrate(free(), Verlet(), START, **RUN, generator=generator)
        integrate(bath(), BAOAB(), START, step_size=0.1, num_steps=0, generator=generator)
        assert torch.equal(generator.get_state(), seeded().get_state())

    @pytest.mark.parametrize("make", [BAOAB, OBABO])
    def test_rows_do_not_depend_on_the_batch(self, make: type) -> None:
        whole = integrate(bath(), make(), START, **RUN, generator=seeded()).states
        for row in (0, 3, 5):
            alone = integrate(bath(), make(), START[row : row + 1], **RUN, generator=seeded(), first=row).states
            assert torch.equal(whole[:, row : row + 1], alone)

    @pytest.mark.parametrize("make", [BAOAB, OBABO])
    def test_a_run_continues_with_the_old_stream_or_with_a_new_one(self, make: type) -> None:
        whole = integrate(bath(), make(), START, step_size=0.1, num_steps=200, generator=seeded()).states
        half = whole[100]
        settings = {"step_size": 0.1, "num_steps": 100, "t0": 10.0}
        again = integrate(bath(), make(), half, **settings, generator=seeded(), first_step=100).states
        assert torch.equal(again, whole[100:])
        fresh = [integrate(bath(), make(), half, **settings, generator=seeded(seed)).states for seed in (1, 2, 1)]
        assert torch.equal(fresh[0], fresh[2]) and not torch.equal(fresh[0], fresh[1])

    def test_noise_may_be_given(self) -> None:
        noise = torch.randn(30, 6, 2, dtype=F64, generator=seeded())
        given = integrate(bath(), BAOAB(), START, **RUN, noise=noise).states
        state = BAOAB().init(bath_ := bath(), START)
        for k in range(30):
            state = BAOAB().step(bath_, state, 0.1, noise[k])
        torch.testing.assert_close(given[-1], state.z, rtol=0, atol=0)
        with pytest.raises(ValueError, match=r"noise has shape \(29, 6, 2\); this run takes \(30, 6, 2\)"):
            integrate(bath(), BAOAB(), START, **RUN, noise=noise[1:])
        with pytest.raises(ValueError, match="take none"):
            integrate(free(), Verlet(), START, **RUN, noise=noise)


class TestSaving:
    def test_initial_and_last_state_are_always_saved(self) -> None:
        every = integrate(free(), Verlet(), START, **RUN)
        some = integrate(free(), Verlet(), START, **RUN, save_every=7)
        picked = [0, 7, 14, 21, 28, 30]
        assert torch.equal(some.states, every.states[picked]) and torch.equal(some.times, every.times[picked])
        assert every.states.shape == (31, 6, 4) and torch.equal(every.states[0], START)

    def test_times_are_exact(self) -> None:
        times, _ = integrate(free(), Verlet(), START, step_size=0.1, num_steps=1_000, save_every=500, t0=1.0)
        assert times.tolist() == [1.0, 51.0, 101.0] and times.dtype == F64

    def test_time_reaches_the_hamiltonian(self) -> None:
        """q'' = cos t started at t0: a run may start anywhere, and rows at times of their own."""
        system = HamiltonianSystem(Separable(square, lambda q, t: -(q * torch.as_tensor(t).cos()[..., None]).sum(-1)))
        starts = torch.tensor([0.0, 0.7, -2.0], dtype=F64)
        together = integrate(system, Verlet(), torch.zeros(3, 2, dtype=F64), **RUN, t0=starts)
        for row, start in enumerate(starts.tolist()):
            alone = integrate(system, Verlet(), torch.zeros(1, 2, dtype=F64), **RUN, t0=start)
            torch.testing.assert_close(together.states[:, row], alone.states[:, 0])
            torch.testing.assert_close(together.times[:, row], alone.times)
        assert not torch.allclose(together.states[-1, 0], together.states[-1, 1])

    def test_steps_of_their_own_for_every_row(self) -> None:
        sizes = torch.tensor([0.05, 0.1, 0.2, 0.0125, 0.3, 0.01], dtype=F64)
        together = integrate(bath(), BAOAB(), START, step_size=sizes, num_steps=9, generator=seeded())
        for row, h in enumerate(sizes.tolist()):
            settings = {"step_size": h, "num_steps": 9, "generator": seeded(), "first": row}
            alone = integrate(bath(), BAOAB(), START[row : row + 1], **settings)
            torch.testing.assert_close(together.states[:, row], alone.states[:, 0], rtol=1e-13, atol=1e-13)

    def test_float32_stays_float32(self) -> None:
        for size in (0.1, torch.full((6,), 0.1, dtype=F64)):
            states = integrate(bath(), BAOAB(), START.float(), step_size=size, num_steps=3).states
            assert states.dtype == torch.float32


class TestGradMode:
    def test_sampling_keeps_no_graph_unless_something_requires_it(self) -> None:
        assert not integrate(bath(), BAOAB(), START, **RUN).states.requires_grad
        assert integrate(bath(), BAOAB(), START.clone().requires_grad_(), **RUN).states.requires_grad
        depth = torch.tensor(2.0, dtype=F64, requires_grad=True)  # not registered anywhere
        system = HamiltonianSystem(Separable(square, lambda q: -depth * q.cos().sum(-1)))
        end = integrate(system, Verlet(), START, **RUN).states[-1]
        slope = torch.autograd.grad(end.sum(), depth)[0]
        step = 1e-6
        ends = [
            integrate(
                HamiltonianSystem(Separable(square, lambda q, d=d: -d * q.cos().sum(-1))), Verlet(), START, **RUN
            ).states[-1]
            for d in (2 - step, 2 + step)
        ]
        torch.testing.assert_close(slope, (ends[1] - ends[0]).sum() / (2 * step), rtol=1e-6, atol=1e-6)

    def test_inside_inference_mode(self) -> None:
        with torch.inference_mode():
            inside = integrate(bath(), BAOAB(), START.clone(), **RUN, generator=seeded()).states
        torch.testing.assert_close(inside.clone(), integrate(bath(), BAOAB(), START, **RUN, generator=seeded()).states)


def test_a_progress_bar_is_shown_when_asked_for() -> None:
    for progress in (True, False):
        with redirect_stderr(io.StringIO()) as shown:
            integrate(free(), Verlet(), START, **RUN, progress=progress)
        assert ("Verlet" in shown.getvalue()) == progress


def test_a_class_or_function_that_makes_an_integrator_will_do() -> None:
    assert torch.equal(integrate(free(), Verlet, START, **RUN).states, integrate(free(), Verlet(), START, **RUN).states)
    assert integrate(bath(), BAOAB, START, **RUN).states.shape == (31, 6, 4)


def test_empty_batches_are_legal() -> None:
    assert integrate(bath(), BAOAB(), START[:0], **RUN).states.shape == (31, 0, 4)


@pytest.mark.usefixtures("as_user")
class TestWhatGoesWrong:
    def test_a_state_that_is_lost_is_reported_with_time_and_row(self) -> None:
        system = HamiltonianSystem(Separable(square, lambda q: -q.pow(4).sum(-1)))
        z0 = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.1, 0.0]], dtype=F64)
        with pytest.raises(NonFiniteError, match=r"row 1 is not finite at time 1\.\d+ \(step 1\d, 1 such") as caught:
            integrate(system, Verlet(), z0, step_size=0.1, num_steps=1000)
        assert caught.value.row == 1 and caught.value.step == round(caught.value.time / 0.1)

    def test_states_that_are_not_finite_to_begin_with(self) -> None:
        with pytest.raises(ValueError, match="z0 is not finite in row 2"):
            integrate(free(), Verlet(), START.index_fill(0, torch.tensor([2]), torch.nan), **RUN)

    def test_states_off_the_space(self) -> None:
        system = HamiltonianSystem(Mechanical(Sphere(2), lambda q: -q[..., 2]))
        on = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0, 0.5]], dtype=F64)
        with pytest.raises(ValueError, match="momentum p has"):
            integrate(system, Verlet(), on, **RUN)
        with pytest.raises(ValueError, match="position q is not on Sphere"):
            integrate(system, Verlet(), 2 * on, **RUN)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"step_size": 0.0, "num_steps": 3}, ValueError, "step_size=0.0 must be positive and finite"),
            ({"step_size": -0.1, "num_steps": 3}, ValueError, "step_size=-0.1 must be positive"),
            ({"step_size": float("nan"), "num_steps": 3}, ValueError, "must be positive and finite"),
            ({"step_size": "a", "num_steps": 3}, TypeError, "step_size='a' must be a number"),
            ({"step_size": 0.1}, ValueError, "give two of step_size, num_steps and end_time"),
            ({"step_size": 0.1, "num_steps": 3, "end_time": 1.0}, ValueError, "give two of"),
            ({"step_size": 0.1, "num_steps": -1}, ValueError, "num_steps=-1 must be at least 0"),
            ({"step_size": 0.1, "num_steps": 2.5}, TypeError, "num_steps=2.5 must be a whole number"),
            ({"step_size": 0.1, "num_steps": 3, "save_every": 0}, ValueError, "save_every=0 must be at least 1"),
            ({"step_size": 0.1, "end_time": -1.0}, ValueError, "must not lie before it"),
            (
                {"step_size": 0.1, "save_at": [-1.0, 0.5]},
                ValueError,
                r"save_at=\[-1.0, 0.5\] leaves the range \[0.0, inf\]",
            ),
            ({"step_size": 0.1, "save_at": [0.5], "end_time": 0.2}, ValueError, "leaves the range"),
            ({"step_size": 0.1, "save_at": [0.5, 0.2]}, ValueError, "must not decrease"),
            ({"step_size": 0.1, "save_at": []}, ValueError, "at least one time"),
            ({"step_size": 0.1, "num_steps": 3, "adjoint": "forward"}, ValueError, "adjoint='forward' must be"),
            ({"step_size": 0.1, "num_steps": 3, "first": -1}, ValueError, "first=-1 must be at least 0"),
            ({"step_size": 0.1, "num_steps": 3, "compile_chunk": -1}, ValueError, "compile_chunk=-1 must be"),
        ],
    )
    def test_arguments(self, arguments: dict, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            integrate(free(), Verlet(), START, **arguments)

    def test_no_integrator(self) -> None:
        with pytest.raises(TypeError, match="must be an Integrator"):
            integrate(free(), "verlet", START, **RUN)


@pytest.mark.gpu
def test_on_a_gpu_the_noise_is_the_same() -> None:
    here = integrate(bath(), BAOAB(), START, **RUN, generator=seeded()).states
    there = integrate(bath().cuda(), BAOAB(), START.cuda(), **RUN, generator=seeded()).states
    torch.testing.assert_close(there.cpu(), here, rtol=1e-9, atol=1e-9)
