"""The benchmark protocols against the oracle file, their verdicts, and the files they write."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats

import geomgen.bench
from geomgen.bench.absorbing import digits, initialisation, kappa, leaping, overhead, protocols, uniformization
from geomgen.bench.absorbing.targets import spin_ring
from geomgen.bench.protocol import Protocol, check, check_table
from geomgen.bench.suite import run
from geomgen.plotting import figure_png
from geomgen.report import Section, to_markdown


@pytest.fixture(scope="module")
def leaping_data() -> dict[str, Any]:
    return leaping.errors(["dense_d3K2", "parity_d4"], [1, 2, 4, 8, 16, 32, 64], progress=False)


def test_the_spin_ring_is_the_oracles(oracles: dict[str, Any]) -> None:
    expected = torch.tensor(oracles["targets"]["ising_ring_d4"]["pmf"], dtype=torch.float64)
    torch.testing.assert_close(spin_ring(4).flatten(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("sampler", "run"),
    [
        ("Tweedie", "tweedie_loglinear"),
        ("Euler", "tweedie_loglinear"),
        ("τ-leaping", "tau_exp_loglinear"),
        ("τ-leaping, reject", "tau_poisson_reject"),
    ],
)
@pytest.mark.parametrize("name", ["dense_d3K2", "parity_d4"])
def test_leaping_errors_are_the_oracles(
    name: str, sampler: str, run: str, leaping_data: dict[str, Any], oracles: dict[str, Any]
) -> None:
    runs = oracles["targets"][name]["runs"]
    own = [p for p in leaping_data["points"] if (p["target"], p["sampler"]) == (name, sampler)]
    compared = [p for p in own if f"{run}_N{p['steps']}" in runs]
    assert len(compared) == 5
    for point in compared:
        expected = runs[f"{run}_N{point['steps']}"]
        found = {"KL": point["kl"], "TV": point["tv"], "path_KL": point["path_kl"]}
        assert found == pytest.approx({key: expected[key] for key in found}, rel=1e-8)


def test_leaping_slopes_are_the_oracles(leaping_data: dict[str, Any], oracles: dict[str, Any]) -> None:
    for fit in leaping_data["fits"]:
        if fit["sampler"] == "Tweedie":
            expected = oracles["slopes_in_N"][fit["target"]]
            found = {"KL": fit["kl_slope"], "path_KL": fit["path_kl_slope"], "TV": fit["tv_slope"]}
            assert found == pytest.approx(expected, abs=0.03)


def test_a_wrong_law_fails_the_slope_check(leaping_data: dict[str, Any]) -> None:
    assert all(c["passed"] for c in leaping_data["checks"] if "reject" not in c["name"])
    wrong = [{**p, "kl": p["kl"] + 1e-4} for p in leaping_data["points"]]
    refit = leaping._fit(wrong, "dense_d3K2", "Tweedie")
    assert not all(c["passed"] for c in leaping._fit_checks(refit))
    above = [{**p, "path_kl": p["kl"] / 2} for p in leaping_data["points"]]
    assert not leaping._order_checks(above)[0]["passed"]


def test_initial_divergences_are_the_oracles(oracles: dict[str, Any]) -> None:
    for horizon, expected in oracles["targets"]["ising_ring_d4"]["init_KL"].items():
        point = initialisation._point(2, float(horizon))
        assert point["exact"] == pytest.approx(expected["exact_uniform_surrogate"], rel=1e-8)
        assert point["bound"] == pytest.approx(expected["bound_d_e^-T_logK"], rel=1e-8)
        assert point["marginal"] == pytest.approx(expected["exact_marginal_surrogate"], rel=1e-8)
        assert abs(point["output_mask"]) < 1e-12 < point["output_surrogate"] < point["exact"]


def test_theorem_grid_is_the_oracles(oracles: dict[str, Any]) -> None:
    rows = [r for r in oracles["kappa_schedule_ising_ring_d4"] if r["T"] == 8.0 and r["c"] >= 0.4]
    assert len(rows) == 2
    for row in rows:
        point = kappa._point(spin_ring(4), row["c"], row["delta"])
        assert point["steps"] == row["N"]
        found = [point[key] for key in ("kl_surrogate", "kl_exact_start", "kl_fill", "init", "time", "data")]
        keys = ["KL(q_delta||p) surrogate init", "KL exact init", "KL(q0||p) all-mask start + final denoise"]
        expected = [row[key] for key in (*keys, "init", "time_term", "data_term")]
        assert found == pytest.approx(expected, rel=1e-8)


def test_counts_of_uniformization_are_checked_against_the_formulas() -> None:
    points = [uniformization._point(d, quick=True) for d in (8, 64)]
    assert all(c["passed"] for c in uniformization._count_checks(points))
    for key in ("candidates", "calls"):
        wrong = [{**p, key: {**p[key], "mean": 1.1 * p[key]["mean"]}} for p in points]
        assert not all(c["passed"] for c in uniformization._count_checks(wrong))


def test_chi_square_accepts_the_right_law_and_rejects_a_close_one() -> None:
    values = torch.tensor(stats.poisson.rvs(40.0, size=4000, random_state=1), dtype=torch.float64)

    def p_value(mean: float) -> float:
        counted = uniformization._counted(values, lambda k: k * math.log(mean) - mean - torch.lgamma(k + 1))
        return float(counted["p_value"])

    assert p_value(40.0) > 1e-3
    assert p_value(41.5) < 1e-4
    support = torch.arange(61, dtype=torch.float64)
    expected = stats.binom.logpmf(support.numpy(), 60, 0.9)
    torch.testing.assert_close(uniformization._log_binomial(support, 60, 0.9), torch.from_numpy(expected))


def test_chi_square_is_scipys() -> None:
    expected = torch.tensor([40.0, 60.0, 80.0, 20.0], dtype=torch.float64)
    observed = torch.tensor([38.0, 71.0, 77.0, 24.0], dtype=torch.float64)
    beyond = 10.0  # expected outside the range of the 210 values, where none was observed
    reference = stats.chisquare([*observed.tolist(), 0.0], [*expected.tolist(), beyond])
    assert uniformization._chi_square(observed, expected, 210) == pytest.approx(reference.pvalue, rel=1e-9)


def test_allocations_are_counted_without_views() -> None:
    with overhead._AllocatedBytes() as allocated:
        table = torch.zeros(10, dtype=torch.float64)
        table.view(2, 5)
        table[:3] + 1
    assert allocated.total == 10 * 8 + 3 * 8


def test_verdicts() -> None:
    checks = [check("a", 1.0, low=1.0), check("b", 2.0, high=1.0), check("c", 0.5, 0.0, 1.0)]
    assert [c["passed"] for c in checks] == [True, False, True]
    rows = check_table({"checks": checks}).rows
    assert [row[2] for row in rows] == ["at least 1", "at most 1", "0 to 1"]


def test_digits_protocol_tells_what_was_measured() -> None:
    points = [{"law": law, "bits": bits, "half_width": 0.1} for law, bits in [("uniform", 4.0), ("model", 2.1)]]
    data = {
        "config": {"steps": 3, "seed": 0, "images": 5},
        "points": points,
        "gain": {"mean": 0.31, "half_width": 0.02},
        "training_seconds": 1.0,
        "checks": [],
    }
    assert figure_png(digits.draw(data)).startswith(b"\x89PNG")
    assert "0.310 ± 0.020" in to_markdown("x", [Section("y", digits.tell(data))])


def test_run_writes_report_figures_and_numbers(tmp_path: Path) -> None:
    chosen = [initialisation.INITIALISATION, uniformization.UNIFORMIZATION]
    checks = run(chosen, tmp_path, "absorbing", "Title", quick=True, progress=False)
    assert checks and all(c["passed"] for c in checks)
    names = ["absorbing.json", "absorbing.md", *(f"{p.name}.{end}" for p in chosen for end in ("json", "png"))]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    results = json.loads((tmp_path / "absorbing.json").read_text())
    assert results["provenance"]["config"] == {"quick": True}
    assert set(results["provenance"]["versions"]) >= {"torch"}
    figure = json.loads((tmp_path / "p4_initialisation.json").read_text())
    assert figure["points"] == results["p4_initialisation"]["points"]
    report = (tmp_path / "absorbing.md").read_text()
    told = [to_markdown("x", [Section("y", p.tell(results[p.name]))]).partition("## y")[2].strip() for p in chosen]
    assert all(text in report for text in told)  # the tables follow from the JSON alone


def test_all_protocols_have_names_of_their_own() -> None:
    names = [p.name for p in protocols()]
    assert len(set(names)) == len(names) == 6


def test_a_failed_check_is_told_and_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(quick: bool, progress: bool) -> dict[str, Any]:
        return {"config": {}, "points": [], "checks": [check("the sky is low", 2.0, high=1.0)]}

    failing = Protocol("sky", "Sky", measure, lambda data: digits.draw({"points": []}), lambda data: [], "Sky.")
    monkeypatch.setattr(geomgen.bench.absorbing, "protocols", lambda: (failing,))
    assert geomgen.bench.main(["absorbing", "--quick", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "failed: the sky is low: 2" in said.err
    assert "0 of 1 checks passed" in said.out


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "suite"),
        (["hamiltonia"], "invalid choice: 'hamiltonia'"),
        (["absorbing", "--fast"], "--fast"),
    ],
)
def test_bad_arguments_are_named(argv: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        geomgen.bench.main(argv)
