r"""Heat kernels: densities, with respect to the Riemannian volume, of Brownian motion with generator $\tfrac12\Delta$.

(Where others write $e^{t\Delta}$, their time is half of ours.) Every function returns the *logarithm* of the density,
computed in float64 and cast to the input's type: good to ten digits in dimensions up to 7, at all times and distances,
tails included, and smooth in the squared distance s, at s = 0 too.

* Large t on compact spaces: the spectral series, which there has few terms and no cancellation.
* Small t, and all t on others: Varadhan's leading term $-s/2t$ is factored out exactly. What is left is a sum over
  images ($S^1$, $S^3$), a closed form ($H^3$), or an integral of positive terms ($S^2$ after Mehler and Dirichlet,
  $H^2$ after McKean 1970), whose midpoint rule converges exponentially.
* Higher dimensions: $p_{n+2}=-\frac{e^{\kappa nt/2}}{2\pi\sin\theta}\,\partial_\theta p_n$, sinh for $\kappa=-1$
  (Debiard, Gaveau and Mazet 1976), by differentiating the logarithm.

So the switches join exact forms, and leave no step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ._functions import generalized_cos, generalized_sinc

__all__ = [
    "hyperbolic_log_kernel",
    "log_sinhc",
    "log_wrapped_normal",
    "so3_log_angle_density",
    "so3_log_kernel",
    "sphere_log_kernel",
]

Kernel = Callable[[Tensor, Tensor], Tensor]

CIRCLE_SWITCH = 0.5
SPHERE_SWITCH = 0.8


def log_wrapped_normal(angle: Tensor, t: float | Tensor) -> Tensor:
    r"""Circle: $\log\sum_k\mathcal N(\theta+2\pi k;\,0,t)$.

    Args:
        angle: any angle (...).
        t: time, a number or (...).
    """
    wrapped, time = _double(torch.remainder(angle + math.pi, 2 * math.pi) - math.pi, t)
    return _circle(wrapped * wrapped, time).to(angle.dtype)


def sphere_log_kernel(dist2: Tensor, t: float | Tensor, n: int) -> Tensor:
    r"""Unit sphere $S^n$, $\log\frac1{|S^n|}\sum_l\frac{2l+n-1}{n-1}C_l^{(n-1)/2}(\cos\theta)\,e^{-l(l+n-1)t/2}$.

    For n > 3 and t < 0.8 the cost doubles with every second dimension, and the density within $10^{-4/m}$ of the
    antipode is that at $10^{-4/m}$, m being (n - 2)/2 rounded down: nearer, differentiation loses its digits.
    Elsewhere the error grows from 1e-14 (n = 4) to 1e-7 (n = 8).

    Args:
        dist2: squared distance $\theta^2$ (...).
        t: time, a number or (...).
        n: dimension, at least 1.
    """
    square, time = _double(dist2, t)
    if n == 1:
        return _circle(square, time).to(dist2.dtype)
    late = time > SPHERE_SWITCH
    early_time = time.masked_fill(late, SPHERE_SWITCH)
    steps = n // 2 - 1
    reach = square.clamp(max=(math.pi - 10 ** (-4 / steps)) ** 2) if steps else square
    early = _climb((_sphere2, _sphere3)[n % 2], reach, early_time, steps, n, 1)
    return torch.where(late, _series(square, time.clamp(min=SPHERE_SWITCH), n), early).to(dist2.dtype)


def hyperbolic_log_kernel(dist2: Tensor, t: float | Tensor, n: int) -> Tensor:
    r"""Hyperbolic space $H^n$ of curvature -1; on $H^3$ $\log\frac{r\,e^{-t/2-r^2/2t}}{(2\pi t)^{3/2}\sinh r}$.

    For n > 3 the cost doubles with every second dimension.

    Args:
        dist2: squared distance $r^2$ (...).
        t: time, a number or (...).
        n: dimension, at least 1.
    """
    square, time = _double(dist2, t)
    steps = max(n // 2 - 1, 0)
    base = _line if n == 1 else (_hyperbolic2, _hyperbolic3)[n % 2]
    return _climb(base, square, time, steps, n, -1).to(dist2.dtype)


def so3_log_kernel(angle: Tensor, t: float | Tensor) -> Tensor:
    r"""Rotations: $\log\frac1{8\pi^2}\sum_l(2l+1)\frac{\sin(l+\frac12)w}{\sin(w/2)}\,e^{-l(l+1)t/2}$, distance w.

    Both unit quaternions of a rotation contribute: Brownian motion on SO(3) is that on $S^3$ at a quarter of the time.

    Args:
        angle: angle w of the rotation in $[0,\pi]$ (...).
        t: time, a number or (...).
    """
    half, time = _double(angle / 2, t)
    near, far = (sphere_log_kernel(w * w, time / 4, 3) for w in (half, math.pi - half))
    return (torch.logaddexp(near, far) - 3 * math.log(2)).to(angle.dtype)


def so3_log_angle_density(angle: Tensor, t: float | Tensor) -> Tensor:
    r"""Log density of the angle w itself, with respect to dw: the kernel times $8\pi(1-\cos w)$.

    Args:
        angle: angle w of the rotation in $(0,\pi]$ (...).
        t: time, a number or (...).
    """
    return so3_log_kernel(angle, t) + math.log(16 * math.pi) + 2 * torch.log(torch.sin(angle / 2))


def log_sinhc(s: Tensor) -> Tensor:
    r"""$\log(\sinh r/r)$ with $r^2=s$, smooth at zero and without overflow.

    Args:
        s: squares (...), not negative.
    """
    small = s < 1
    r = s.masked_fill(small, 1.0).sqrt()
    large = r - torch.log(2 * r) + torch.log(-torch.expm1(-2 * r))
    return torch.where(small, generalized_sinc(-s.masked_fill(~small, 0.0)).log(), large)


def _double(value: Tensor, t: float | Tensor) -> tuple[Tensor, Tensor]:
    """Both in float64, of one shape."""
    value, time = torch.broadcast_tensors(value.double(), torch.as_tensor(t, dtype=torch.float64, device=value.device))
    return value, time


def _climb(base: Kernel, square: Tensor, time: Tensor, steps: int, n: int, sign: int) -> Tensor:
    r"""$\ell_{n+2}=\ell_n+\kappa nt/2-\log2\pi+\log(-2\partial_s\ell_n)-\log\mathrm{sinc}_\kappa s$, from base up."""
    if not steps:
        return base(square, time)

    def below(s: Tensor) -> Tensor:
        return _climb(base, s, time, steps - 1, n - 2, sign)

    value, pullback = torch.func.vjp(below, square)[:2]
    (slope,) = pullback(torch.ones_like(square))
    log_sinc = generalized_sinc(square).log() if sign > 0 else log_sinhc(square)
    return value + sign * (n - 2) * time / 2 - math.log(2 * math.pi) + torch.log(-2 * slope) - log_sinc


def _flat(square: Tensor, time: Tensor, n: int) -> Tensor:
    """Euclidean kernel, Varadhan's leading term."""
    return -square / (2 * time) - n / 2 * torch.log(2 * math.pi * time)


def _line(square: Tensor, time: Tensor) -> Tensor:
    return _flat(square, time, 1)


def _circle(square: Tensor, time: Tensor) -> Tensor:
    """Three images at small times, 13 cosines at large ones: both reach rounding at the switch."""
    late = time > CIRCLE_SWITCH
    k = torch.arange(1, 14, dtype=torch.float64, device=square.device)
    damped = torch.exp(-k * k * time.clamp(min=CIRCLE_SWITCH)[..., None] / 2)
    series = torch.log1p(2 * (damped * generalized_cos(k * k * square[..., None])).sum(-1)) - math.log(2 * math.pi)
    time = time.masked_fill(late, CIRCLE_SWITCH)
    angle = (square + 1e-16).sqrt()
    plus, minus = (_flat((angle + turn) ** 2, time, 1) for turn in (2 * math.pi, -2 * math.pi))
    return torch.where(late, series, torch.logaddexp(_flat(square, time, 1), torch.logaddexp(plus, minus)))


def _series(square: Tensor, time: Tensor, n: int) -> Tensor:
    """Spectral series of S^n, n > 1: 20 terms reach rounding for t > 0.27 on S^3, and far beyond for t > 0.8."""
    cosine, order = generalized_cos(square), (n - 1) / 2
    before, zonal = torch.ones_like(cosine), 2 * order * cosine  # Gegenbauer polynomials C_0, C_1
    total = torch.zeros_like(cosine)
    for degree in range(1, 21):
        total = total + (degree + order) / order * zonal * torch.exp(-degree * (degree + n - 1) * time / 2)
        after = 2 * (degree + order) * cosine * zonal - (degree + 2 * order - 1) * before
        before, zonal = zonal, after / (degree + 1)
    log_volume = math.log(2) + (order + 1) * math.log(math.pi) - math.lgamma(order + 1)
    return torch.log1p(total) - log_volume


def _sphere3(square: Tensor, time: Tensor) -> Tensor:
    r"""Images $\frac{\theta+2\pi k}{\sin\theta}$: one suffices near x, two about the antipode; late, the series."""
    near = square < math.pi**2 / 4
    switch = torch.full_like(time, SPHERE_SWITCH).masked_fill(near, 0.27)
    late = time > switch
    series = _series(square, torch.where(late, time, switch), 3)
    time = torch.where(late, switch, time)
    one = -generalized_sinc(square.masked_fill(~near, 0.0)).log()
    depth = math.pi - square.masked_fill(near, math.pi**2 / 4).sqrt()
    z = math.pi * depth / time
    pair = 2 * math.pi**2 / time * _damped_sinhc(z) - 1 - torch.exp(-2 * z)
    two = torch.log(pair) - generalized_sinc(depth * depth).log()
    return torch.where(late, series, _flat(square, time, 3) + time / 2 + torch.where(near, one, two))


def _damped_sinhc(z: Tensor) -> Tensor:
    r"""$e^{-z}\sinh z/z$, 1 at 0."""
    small = z.abs() < 1e-3
    safe = z.masked_fill(small, 1.0)
    series = 1 - z + 2 / 3 * z**2 - z**3 / 3 + 2 / 15 * z**4
    return torch.where(small, series, -torch.expm1(-2 * safe) / (2 * safe))


def _hyperbolic3(square: Tensor, time: Tensor) -> Tensor:
    return _flat(square, time, 3) - time / 2 - log_sinhc(square)


def _sphere2(square: Tensor, time: Tensor) -> Tensor:
    return _surface(square, time, 1, (0, 1, -1), nodes=32, reach=math.pi / 2)


def _hyperbolic2(square: Tensor, time: Tensor) -> Tensor:
    return _surface(square, time, -1, (0,), nodes=96, reach=42.0)


def _surface(square: Tensor, time: Tensor, sign: int, images: tuple[int, ...], nodes: int, reach: float) -> Tensor:
    r"""Quadrature for $S^2$ and $H^2$.

    $p=\frac{2e^{\kappa t/8}}{(2\pi t)^{3/2}}\int_0^{\pi/2}\sum_k\frac{(-1)^k\varphi_k}{\sin(\varphi/2)}
    e^{-\varphi_k^2/2t}\,d\psi$ with $\cos(\varphi/2)=\cos(\theta/2)\cos\psi$ and $\varphi_k=\varphi+2\pi k$; for
    $\kappa=-1$ hyperbolic functions, k = 0 alone, and no upper limit. The integrand is even in $\psi$, analytic, and
    periodic or decaying; the nodes end where it is below rounding, or at ``reach``.
    """
    s, t = square[..., None], time[..., None]
    cosine, sinc = generalized_cos(sign * s / 4), generalized_sinc(sign * s / 4)
    curvature = (2 * cosine / sinc).clamp(min=1e-3)  # the exponent is -curvature psi^2 / t near psi = 0
    end = (1.5 * torch.sqrt(40 * t / curvature)).clamp(max=reach)
    psi = end * (torch.arange(nodes, dtype=torch.float64, device=s.device) + 0.5) / nodes
    leg = psi.sin() if sign > 0 else psi.sinh()
    sine = (s / 4 * sinc**2 + (cosine * leg) ** 2).sqrt()
    phi = 2 * (torch.atan2(sine, cosine * psi.cos()) if sign > 0 else torch.asinh(sine))
    total = torch.zeros_like(phi)
    for k in images:
        image = phi + 2 * math.pi * k
        total = total + (-1) ** k * image * torch.exp((s - image**2) / (2 * t))
    integral = (total / sine).sum(-1) * end[..., 0] / nodes
    return _flat(square, time, 3) + sign * time / 8 + torch.log(2 * integral)
