"""The published numbers are complete and consistent."""

from __future__ import annotations

import pytest

from gnpool.tasks.arena import benchmark_names, published, published_tables
from gnpool.tasks.arena.published import MARKS

BEST = {
    ("good_motif_size", "covariate", "verified"): ("GSAT", 60.76),
    ("good_motif_size", "covariate", None): ("LECI", 71.0),
    ("good_motif_basis", "covariate", None): ("Mixup", 69.67),
    ("good_motif_size", "concept", None): ("ERM", 70.83),
    ("good_motif_basis", "concept", None): ("DIR", 82.96),
    ("tu_size", "NCI1", None): ("WL kernel", 0.39),
    ("tu_size", "NCI109", None): ("Gamma-1hot", 0.25),
    ("tu_size", "PROTEINS", None): ("CIGAv1", 0.40),
    ("tu_size", "DD", None): ("CIGAv1", 0.29),
    ("pna_multitask", "average", None): ("PNA", -3.13),
    ("pna_multitask", "average, from the plot", "verified"): ("PNA", -2.97),
    ("salsa_bfs", "ER 1600", None): ("RecGNN", 99.2),
    ("salsa_bfs", "Delaunay 1600", None): ("RecGNN", 55.6),
    ("colors", "LargeC", None): ("supervised attention", 75.0),
    ("triangles", "Large", None): ("supervised attention", 48.0),
}


@pytest.mark.parametrize(("where", "best"), BEST.items(), ids=lambda value: "-".join(map(str, value)))
def test_best(where: tuple[str, str, str | None], best: tuple[str, float]) -> None:
    table, column, mark = where
    found = published(table).best(column, mark)
    assert found is not None
    assert (found[0], found[1].mean) == best


def test_every_number_has_a_column_a_mark_and_a_source() -> None:
    for name in published_tables():
        table = published(name)
        assert name in benchmark_names() or name == "tu_size"
        assert table.better in ("higher", "lower")
        assert set(table.source) == {"title", "year", "link", "read"}
        used = {column for scores in table.rows.values() for column in scores}
        assert used == set(table.columns)
        for scores in table.rows.values():
            for score in scores.values():
                assert score.mark in MARKS
                assert score.std is None or score.std >= 0
        assert set(table.references) <= set(table.rows)


def test_rows_of_pna_average_to_their_first_column() -> None:
    for scores in published("pna_multitask").rows.values():
        tasks = [scores[column].mean for column in published("pna_multitask").columns[1:7]]
        assert sum(tasks) / 6 == pytest.approx(scores["average"].mean, abs=0.02)


def test_tables_without_numbers_and_what_is_not_there() -> None:
    assert published("salsa_dijkstra").rows == {}
    assert published("salsa_eccentricity").best("ER 1600") is None
    with pytest.raises(ValueError, match=r"'table' must be one of good_motif_size, .*, got 'mnist'"):
        published("mnist")
