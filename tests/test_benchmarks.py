"""The baselines compute what they claim, and the command is honest about the machine."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import large, shown, timing
from benchmarks.cases import CASES, Promise, composed
from benchmarks.large import GROWTH, P, SampledStep, batches, errors, random_graph, sum_bias
from benchmarks.rivals import Net, against_rivals, batch_of_graphs
from benchmarks.training import AtOnce, GatherNet, OneByOne
from gnpool import norm_pool, norm_pool_neighbors
from gnpool.models import GraphNet
from gnpool.report.markdown.blocks import fill


def test_the_composed_operator_is_the_operator():
    x, index = torch.rand(50, 3, dtype=torch.float64), torch.randint(0, 7, (50,))
    p, q = torch.tensor(1.7, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)
    torch.testing.assert_close(composed(x, index, 9, p, q), norm_pool(x, index, p=p, q=q, dim_size=9))


def test_promises_name_contenders_that_exist():
    small = {name: CASES[name].make() for name in ("small", "small step")}
    for name, contenders in small.items():
        for promise in CASES[name].promises:
            assert {promise.numerator, promise.denominator} <= contenders.keys()


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_rivals_compute_what_they_are_called():
    """Sum, mean and max of every rival, without a compiler; the names of the promises are theirs."""
    x, index = torch.rand(20, 3), torch.tensor([0] * 7 + [1] * 5 + [2] * 8)
    ptr = torch.tensor([0, 7, 12, 20])
    contenders = against_rivals(x, index, ptr, lambda function: function)
    expected = {
        law: norm_pool(x, ptr=ptr, p=p, growth=growth, eps=0.0)
        for law, p, growth in (("sum", 1, 1), ("mean", 1, 0), ("max", torch.inf, 0))
    }
    checked = []
    for name, step in contenders.items():
        law = name.removesuffix(", compiled").split()[-1].removeprefix("a")
        if name.startswith(("gnpool", "PyG power")) or law not in expected:
            continue
        torch.testing.assert_close(step.pool(x, *step.parameters), expected[law])
        checked.append(name)
    assert len(checked) == 9 + ("torch_scatter max" in contenders)
    for case in ("rivals", "cuda rivals"):
        names = {n for promise in CASES[case].promises for n in (promise.numerator, promise.denominator)}
        assert names <= contenders.keys()


def test_a_model_is_one_graph_for_the_compiler():
    data = batch_of_graphs(3, 5, 2, 4)
    net = Net(4)
    torch.compiler.reset()
    one_graph = torch.compile(net, fullgraph=True, dynamic=False, backend="aot_eager")
    found = [torch.autograd.grad(f(*data).square().sum(), list(net.parameters())) for f in (net, one_graph)]
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(theirs, mine)


def test_sampled_batches_are_parts_of_the_graph():
    graph = random_graph(2_000, "cpu")
    x = torch.rand(graph.nodes, 3)
    for batch in batches(graph, 20, 2):
        nodes = batch.nodes
        assert nodes.unique().numel() == nodes.numel()
        for hop in batch.hops:
            targets = torch.arange(hop.sizes.numel()).repeat_interleave(hop.ptr.diff())
            for target, source in zip(nodes[targets].tolist(), nodes[hop.source].tolist(), strict=True):
                assert source in graph.source[graph.ptr[target] : graph.ptr[target + 1]]
            assert torch.equal(hop.sizes, graph.ptr.diff()[nodes[: hop.sizes.numel()]])
    step = SampledStep(batches(graph, 20, 2), x)
    before = [p.detach().clone() for p in step.net.parameters()]
    step()
    assert all((p != old).any() for p, old in zip(step.net.parameters(), before, strict=True))
    assert [lists[1].numel() for lists in step.all_lists()] == [hop.source.numel() for hop in step.batches[0].hops]
    assert len(step.lists()) == 1
    told, blind = sum_bias(graph, x[:, :1], 20)
    assert abs(told) < 0.05
    assert blind < -0.3


def test_errors_of_one_large_graph_are_seen(monkeypatch):
    graph = random_graph(2_000, "cpu")
    x = torch.rand(graph.nodes, 3)
    of_values, of_gradients = errors(graph, x, P, GROWTH, nodes=20)
    assert 0 < of_values < 2e-6
    assert 0 < of_gradients < 1e-5
    monkeypatch.setattr(
        large, "norm_pool_neighbors", lambda *a, growth, **k: norm_pool_neighbors(*a, growth=GROWTH + 1e-3, **k)
    )
    of_values, of_gradients = errors(graph, x, P, GROWTH, nodes=20)
    assert of_values > 1e-4
    assert of_gradients > 1e-4


def test_the_gather_form_is_the_network_that_fit_many_trains():
    baseline = OneByOne(1)
    net, batch = GraphNet(1), baseline.batch
    with torch.no_grad():
        for mine, theirs in zip(net.parameters(), baseline.models[0].parameters(), strict=True):
            mine.copy_(theirs)
    expected = net(batch.x, batch.edge_index, batch.batch)
    torch.testing.assert_close(GatherNet.forward(baseline.models[0], batch), expected)


@pytest.mark.parametrize("make", [lambda: AtOnce([2, 1], lambda: GraphNet(1)), lambda: OneByOne(2)], ids=["all", "one"])
def test_a_step_of_training_moves_every_model(make):
    contender = make()
    if isinstance(contender, AtOnce):
        rows = [unit.flat for unit in contender.units]
    else:
        rows = [torch.nn.utils.parameters_to_vector(m.parameters())[None] for m in contender.models]
    before = [row.detach().clone() for row in rows]
    threads = torch.get_num_threads()
    contender()
    if isinstance(contender, OneByOne):
        rows = [torch.nn.utils.parameters_to_vector(m.parameters())[None] for m in contender.models]
    for row, old in zip(rows, before, strict=True):
        assert bool((row != old).any(dim=1).all())
    assert torch.get_num_threads() == threads


def test_a_promise_may_be_extrapolated_or_absolute():
    timings = {"a": timing.Timing(2.0, 1.0, 3.0, 5), "b": timing.Timing(10.0, 9.0, 11.0, 5)}
    assert command.figure(Promise("a", "b", 1.0), timings) == ("a / b", 0.2)
    assert command.figure(Promise("a", "b", 1.0, times=40), timings) == ("a / 40 x b", 0.005)
    assert command.figure(Promise("a", None, 1.0), timings) == ("a, ms", 2.0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_cases_for_a_gpu_are_left_out_without_one(monkeypatch, tmp_path, capsys):
    arguments = ["benchmarks", "--no-tests", "--csv", str(tmp_path / "rows.csv"), "training cuda"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(command, "busy_share", lambda: 0.0)
    assert command.main() == 0
    assert "training cuda: left out, since torch finds no GPU here" in capsys.readouterr().out


def test_time_in_turn_summarises_each_contender():
    calls = []
    timings = timing.time_in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=5)
    assert {t.samples for t in timings.values()} == {5}
    assert all(0 < t.low <= t.median <= t.high for t in timings.values())
    assert calls.count("a") > 5


def test_a_busy_machine_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--no-tests", "small"])
    monkeypatch.setattr(command, "busy_share", lambda: 0.5)
    assert command.main() == 1
    assert "The machine is busy: 50% of its cores are in use by others" in capsys.readouterr().err


def test_red_tests_give_no_figures(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "small"])
    monkeypatch.setattr(command, "tests_pass", lambda: False)
    assert command.main() == 1
    assert "no figures for wrong results" in capsys.readouterr().err


def test_rows_are_stored_with_versions_and_hardware(monkeypatch, tmp_path, capsys):
    path = tmp_path / "rows.csv"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--no-tests", "--csv", str(path), "small"])
    monkeypatch.setattr(command, "busy_share", lambda: 0.0)
    monkeypatch.setattr(timing, "LEAST_SECONDS", 1e-4)
    assert command.main() == 0
    assert "gnpool / PyG sum" in capsys.readouterr().out
    rows = list(csv.DictReader(path.open()))
    assert [row["contender"] for row in rows] == ["gnpool", "PyG sum"]
    assert all(float(row["p20_ms"]) <= float(row["median_ms"]) <= float(row["p80_ms"]) for row in rows)
    assert all("torch" in row["versions"] and "cores" in row["hardware"] for row in rows)


def test_an_unknown_case_is_bad_usage():
    run = subprocess.run([sys.executable, "-m", "benchmarks", "nope"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "no case is called 'nope'" in run.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/stat")
def test_the_share_of_a_machine_is_a_share():
    assert 0.0 <= timing.busy_share(0.05) <= 1.0


@pytest.mark.parametrize("page", shown.PAGES, ids=lambda page: page.name)
def test_the_pages_show_the_last_figures(page: Path) -> None:
    text, medians = page.read_text(encoding="utf-8"), shown.last_medians()
    blocks = {name: shown.written(block, medians) for name, block in shown.BLOCKS.items()}
    assert fill(text, blocks, family="benchmarks") == text, "run: python -m benchmarks.shown"


def test_every_shown_block_stands_on_one_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in shown.PAGES)
    assert {name: text.count(f"<!-- benchmarks:{name} -->") for name in shown.BLOCKS} == dict.fromkeys(shown.BLOCKS, 1)


def test_fields_of_a_shown_text() -> None:
    medians = {("a", "b, c"): 30.0, ("a", "d"): 0.12}
    text = "{a: b, c} {a: d} {a: b, c * 40} {a: b, c / d} {plain}"
    assert shown.written(text, medians) == "30.0 0.120 1,200 250.0 {plain}"


def test_the_picture_of_ratios(tmp_path: Path) -> None:
    shown.draw(tmp_path / "speed.png", shown.last_medians())
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_the_last_median_counts(tmp_path: Path) -> None:
    lines = ['a,"b, c",1,"AMD EPYC, 2 cores"', "a,d,5,NVIDIA H200", 'a,"b, c",2,"AMD EPYC, 2 cores"', "a,d,7,other"]
    (tmp_path / "some.csv").write_text("\n".join(["case,contender,median_ms,hardware", *lines]))
    assert shown.last_medians(tmp_path / "some.csv") == {("a", "b, c"): 2.0, ("a", "d"): 5.0}
