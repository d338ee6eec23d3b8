"""Learn a pooling on small graphs, test it on graphs three times larger: what gnpool is for, in about a minute.

The task is the harmonic one: from the graph alone, without node features, predict 1 / sum_v 1/degree(v). A one-layer
GIN is trained on random graphs of 20 to 29 nodes, once with GNP, which learns how to pool, and once with each of four
usual readouts. All are tested on new graphs of that size and on graphs of 60 to 90 nodes.
Results go to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Identity, Linear, ReLU, Sequential
from torch.nn.functional import mse_loss
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv
from torch_geometric.nn.resolver import aggregation_resolver

from gnpool import GNPAggregation, GNPConv, param_groups

SMALL, LARGE = (20, 29), (60, 90)  # number of nodes, both ends included
MODELS = [("GNP", "GNP"), ("sum", "sum"), ("sum", "mean"), ("sum", "max"), ("sum", "min")]  # aggregation, readout
HIDDEN = 32
NAMED = {"sum": (1, 0), "mean": (1, 1), "max": (math.inf, 0), "min": (-math.inf, 0), "harmonic sum": (-1, 0)}  # p, q
NEAR = 0.2  # (1/p, q) within this distance of a named pooling is near it; names of one branch are 1 or more apart
HARDLY = 2.0  # a branch is hardly used if switching it off adds fewer points of error


def random_graph(sizes: tuple[int, int], generator: torch.Generator) -> Data:
    """A connected Erdos-Renyi graph with the constant node feature 1 and its harmonic label."""
    n = int(torch.randint(sizes[0], sizes[1] + 1, (), generator=generator))
    density = int(torch.randint(1, 10, (), generator=generator)) / 10
    while True:
        upper = (torch.rand(n, n, generator=generator) < density).triu(1)
        adjacency = (upper | upper.T).double()
        walks = torch.linalg.matrix_power((adjacency + torch.eye(n)) / n, n - 1)
        if bool((walks > 0).all()):  # connected: n - 1 steps lead from everywhere to everywhere
            break
    label = 1 / (1 / adjacency.sum(1)).sum()
    return Data(x=torch.ones(n, 1), edge_index=adjacency.nonzero().T.contiguous(), y=label.float())


def make_batches(count: int, sizes: tuple[int, int], batch_size: int, seed: int) -> list[Batch]:
    """Random graphs, collated once: a DataLoader would build the same small batches again in every epoch."""
    generator = torch.Generator().manual_seed(seed)
    graphs = [random_graph(sizes, generator) for _ in range(count)]
    return [Batch.from_data_list(graphs[i : i + batch_size]) for i in range(0, count, batch_size)]


class Network(torch.nn.Module):
    """MLP on each node, one GIN layer, readout, linear output; only the two poolings differ between the models.

    GIN's self term, (1 + eps) x_v, is left out (eps = -1), so that a sum over neighbours counts them. The output has
    no bias, nor have GNP's own linear layers: what follows the MLP is homogeneous, which helps it extrapolate.
    """

    def __init__(self, aggregation: str, readout: str) -> None:
        super().__init__()
        self.mlp = Sequential(Linear(1, HIDDEN), ReLU(), Linear(HIDDEN, HIDDEN), ReLU())
        if aggregation == "GNP":
            self.conv = GNPConv(Identity(), aggr=GNPAggregation(HIDDEN), eps=-1.0)
        else:
            self.conv = GINConv(Identity(), aggr=aggregation, eps=-1.0)
        self.readout = GNPAggregation(HIDDEN) if readout == "GNP" else aggregation_resolver(readout)
        self.output = Linear(HIDDEN, 1, bias=False)

    def forward(self, batch: Batch) -> Tensor:
        x = self.conv(self.mlp(batch.x), batch.edge_index).relu()
        return self.output(self.readout(x, batch.batch)).squeeze(-1)


@torch.no_grad()
def evaluate(model: Network, batches: list[Batch]) -> tuple[float, float]:
    """Mean squared error, and mean absolute error in percent of the label (MAPE)."""
    label = torch.cat([batch.y for batch in batches])
    error = torch.cat([model(batch) for batch in batches]) - label
    return error.square().mean().item(), 100 * (error / label).abs().mean().item()


def train(model: Network, name: str, batches: list[Batch], validation: list[Batch], epochs: int) -> None:
    """Train, and leave the model as it was after the epoch with the lowest validation loss."""
    optimizer = torch.optim.RMSprop(param_groups(model, lr=3e-3, lr_p=5e-2))  # p learns faster than the rest
    # The rates stay constant, then fall to zero over the last 30 % of the epochs.
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: min(1.0, (1 - epoch / epochs) / 0.3))
    best_loss, best_epoch, best_state = math.inf, 0, model.state_dict()
    start, live = time.perf_counter(), sys.stderr.isatty()
    for epoch in range(1, epochs + 1):
        for i in torch.randperm(len(batches)).tolist():
            optimizer.zero_grad()
            mse_loss(model(batches[i]), batches[i].y).backward()
            optimizer.step()
        schedule.step()
        loss, _ = evaluate(model, validation)
        if loss < best_loss:
            best_loss, best_epoch = loss, epoch
            best_state = {key: value.clone() for key, value in model.state_dict().items()}
        if live:
            print(f"\r\033[K{name}: epoch {epoch} of {epochs}, loss {loss:.1e}", end="", file=sys.stderr, flush=True)
    model.load_state_dict(best_state)
    summary = f"{name}: lowest validation loss {best_loss:.1e} in epoch {best_epoch} of {epochs}"
    print("\r\033[K" * live + f"{summary}, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def nearest_name(p: float, q: float) -> str:
    """The named pooling next to (p, q) in its branch; 1/p stands for p, so that max and min are not infinitely far."""
    distance = {name: math.hypot(1 / p - 1 / p0, q - q0) for name, (p0, q0) in NAMED.items() if p * p0 > 0}
    name = min(distance, key=distance.__getitem__)
    where = "near the" if distance[name] < NEAR else "between the names, nearest is the"
    return f"{where} {name} (p = {NAMED[name][0]:g}, q = {NAMED[name][1]:g})"


@torch.no_grad()
def describe(model: Network, batches: list[Batch]) -> list[str]:
    """Read the learned exponents: one line for each GNP layer and branch, with the error when it is switched off."""
    _, error = evaluate(model, batches)
    lines = [f"{'layer':<13}{'branch':<10}{'p':>6}{'q':>7}{'without it':>13}   reading"]
    for layer, pooling in (("aggregation", model.conv.aggr_module), ("readout", model.readout)):
        weight = pooling.mix.weight  # mixes the pooled channels: the first half positive, the second half negative
        for branch, p, q, columns in (
            ("positive", pooling.p_pos.item(), pooling.q_pos.item(), weight[:, : HIDDEN // 2]),
            ("negative", -pooling.p_neg.item(), pooling.q_neg.item(), weight[:, HIDDEN // 2 :]),
        ):
            kept = columns.clone()
            columns.zero_()
            _, without = evaluate(model, batches)
            columns.copy_(kept)
            if without < error + HARDLY:
                reading = "hardly used"
            elif layer == "aggregation":  # all messages are equal here: n^-q (n m^p)^(1/p) = m n^(1/p - q)
                reading = f"gives degree^{1 / p - q:.2f} (the sum: degree^1)"
            else:
                reading = nearest_name(p, q)
            lines.append(f"{layer:<13}{branch:<10}{p:>6.2f}{q:>7.2f}{without:>11.1f} %   {reading}")
    return lines


def positive(text: str) -> int:
    """A positive whole number, for argparse."""
    if int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the five networks and print how they do on larger graphs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=positive, default=20, help="passes over the training graphs (%(default)s)")
    parser.add_argument("--graphs", type=positive, default=1024, help="number of training graphs (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of graphs, initial weights and order (%(default)s)")
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)  # the fastest for batches this small, and no result depends on the number of cores
    print(f"drawing {options.graphs} training graphs", file=sys.stderr, flush=True)
    training = make_batches(options.graphs, SMALL, batch_size=4, seed=4 * options.seed)
    validation = make_batches(180, SMALL, batch_size=60, seed=4 * options.seed + 1)
    small = make_batches(180, SMALL, batch_size=60, seed=4 * options.seed + 2)
    large = make_batches(90, LARGE, batch_size=15, seed=4 * options.seed + 3)
    errors, readings = {}, []
    for aggregation, readout in MODELS:
        torch.manual_seed(options.seed)
        model, name = Network(aggregation, readout), f"{aggregation} / {readout}"
        train(model, name, training, validation, options.epochs)
        errors[name] = evaluate(model, small)[1], evaluate(model, large)[1]
        if readout == "GNP":
            readings = describe(model, small)

    print("Task: from the graph alone, predict 1 / (sum of 1/degree over its nodes).")
    print(f"Trained on {options.graphs} graphs of {SMALL[0]}-{SMALL[1]} nodes. Error on new graphs (MAPE, %):\n")
    print(f"{'aggregation / readout':<22}{SMALL[0]:>8}-{SMALL[1]} nodes{LARGE[0]:>8}-{LARGE[1]} nodes")
    for name, (error_small, error_large) in errors.items():
        print(f"{name:<22}{error_small:>17.1f}{error_large:>17.1f}")

    (gnp, gnp_error), *others = ((name, error) for name, (_, error) in errors.items())
    other, other_error = min(others, key=lambda item: item[1])
    verdict = "is the best of the five" if gnp_error < other_error else "is NOT the best of the five"
    print(f"\nOn the larger graphs {gnp} {verdict}: {gnp_error:.1f} % against {other_error:.1f} % of {other}.")
    p, q = GNPAggregation(HIDDEN).p_pos.item(), GNPAggregation(HIDDEN).q_pos.item()
    print("One seed, one setting: all five share rates and steps, which were chosen for GNP.")
    print(f"\nWhat GNP, n^-q (sum x^p)^(1/p), learned; p started at +-{p:.2f} and q at {q:g}, the defaults.")
    print("Without it: the error on the small graphs when that branch is switched off.\n")
    print("\n".join(readings))
    print("\nExact for this task: sum the messages (all equal, so this counts them), then take the harmonic sum.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
