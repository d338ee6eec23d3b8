"""`fit_many` as users see it: selection, failures, stopping and resuming, fall-backs, messages."""

from __future__ import annotations

import copy
import functools
import json
import math

import pytest
import torch
from torch_geometric.data import Batch as PygBatch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, global_add_pool

from gnpool import Batches, GNPAggregation, Setting, fit_many
from gnpool.training import fit as fit_module
from tests.training.alone import score, train_alone
from tests.training.problems import Net, absolute, call, graphs, squared

RATES = Setting(lr=3e-3, lr_p=3e-2)
TRAIN, VALIDATION = graphs(20), graphs(6, seed=1)


class OtherNet(Net):
    """Parameters of the same shapes in another model."""


def fit(make_model=Net, settings=RATES, **options):
    options = {"seeds": 2, "epochs": 4, "batch_size": 5, "validation": VALIDATION, **options}
    return fit_many(make_model, TRAIN, squared, settings, **options)


def assert_same(a, b):
    assert len(a) == len(b)
    for left, right in zip(a.runs, b.runs, strict=True):
        assert left == right
        for (name, x), y in zip(a.state_dict(left).items(), b.state_dict(right).values(), strict=True):
            assert torch.equal(x, y), name
    for name in ("train", "loss", *a.watched):
        assert torch.equal(torch.nan_to_num(a.curve(name)), torch.nan_to_num(b.curve(name))), name


def test_runs_are_settings_times_seeds():
    settings = Setting.grid(lr=[1e-2, 1e-3])
    result = fit(settings=settings, seeds=[4, 7], epochs=1)
    assert [(run.setting, run.seed) for run in result.runs] == [(s, k) for s in settings for k in (4, 7)]
    assert [run.number for run in result.runs] == [0, 1, 2, 3]
    assert repr(result) == "Fit(4 runs, 0 failed)"


def test_seeds_initialise_as_torch_does():
    result = fit(seeds=[3], settings=Setting(lr=0.0), epochs=1)
    torch.manual_seed(3)
    expected = Net().state_dict()
    for name, value in result.state_dict(0).items():
        assert torch.equal(value, expected[name]), name


def test_training_leaves_the_random_state_of_the_caller_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    fit(epochs=1)
    fit(lambda: Net("dropout"), epochs=1)
    assert torch.equal(torch.rand(3), expected)


def test_best_setting_is_by_the_mean_over_seeds():
    result = fit(settings=Setting.grid(lr=[1e-2, 1e-7]), seeds=3, epochs=8)
    values = torch.tensor([run.best["loss"].value for run in result.runs]).view(2, 3)
    assert values[0].mean() < values[1].mean()
    assert result.best_setting() == Setting(lr=1e-2)
    assert result.best().number == int(values.argmin())
    assert [run.number for run in result.runs_of(Setting(lr=1e-7))] == [3, 4, 5]


def test_evaluate_gives_every_run_at_its_best_epoch():
    result = fit(criteria={"mae": absolute})
    test = Batches(graphs(9, seed=5), 4, seed=None)
    for criterion in ("loss", "mae"):
        scores = result.evaluate(test, {"mse": squared, "mae": absolute}, criterion)
        for run in result.runs:
            model = result.model(run, criterion)
            assert scores["mse"][run.number].item() == pytest.approx(score(model, test, squared, call), rel=1e-5)
            assert scores["mae"][run.number].item() == pytest.approx(score(model, test, absolute, call), rel=1e-5)


def test_validation_ranks_in_float64():
    """Two epochs that float32 cannot tell apart: the loss is 15 and a difference of 1e-9 of it."""

    class Constant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.value = torch.nn.Parameter(torch.tensor(1e-4))

        def forward(self, batch):
            return self.value.expand(int(batch.max()) + 1)

    def loss(prediction, batch):
        return 15.0 + prediction.double().square()

    result = fit_many(Constant, TRAIN, loss, Setting(lr=1e-6), epochs=5, validation=VALIDATION)
    curve = result.curve("loss")[:, 0]
    assert curve.float().unique().numel() == 1
    assert bool((curve.diff() < 0).all())
    assert result.runs[0].best["loss"].epoch == 4


def test_p_and_q_are_recorded():
    result = fit(epochs=3)
    assert result.watched == [
        f"{layer}.{name}" for layer in ("conv.aggr_module", "pool") for name in ("p_pos", "q_pos", "p_neg", "q_neg")
    ]
    curve = result.curve("pool.p_neg")
    assert curve.shape == (4, 2)
    assert curve[0].tolist() == pytest.approx([1 + math.log(2)] * 2)
    alone = train_alone(Net, Batches(TRAIN, 5), squared, RATES, 1, 3, call)
    assert curve[3, 1].item() == pytest.approx(alone.pool.p_neg.item(), rel=1e-4)
    with pytest.raises(KeyError, match="no curve 'p'"):
        result.curve("p")


def test_p_and_the_growth_are_recorded():
    make = functools.partial(Net, "gnpg")
    result = fit(make_model=make, epochs=3)
    assert result.watched == [f"{layer}.{name}" for layer in ("conv.aggr_module", "pool") for name in ("p", "growth")]
    alone = train_alone(make, Batches(TRAIN, 5), squared, RATES, 1, 3, call)
    for name in ("p", "growth"):
        curve = result.curve(f"pool.{name}")
        assert curve.shape == (4, 2)
        first = getattr(make().pool, name).item()
        assert curve[0].tolist() == pytest.approx([first, first])
        assert curve[3, 1].item() == pytest.approx(getattr(alone.pool, name).item(), rel=1e-4)
        assert curve[3, 1].item() != pytest.approx(first, abs=1e-4)


def test_exponents_are_recorded_by_the_names_of_their_layers():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.draw_one, self.draw_two = GNPAggregation(2), GNPAggregation(2)
            self.draw_two.raw_p = self.draw_one.raw_p
            self.output = torch.nn.Linear(2, 1)

        def forward(self, x, batch, batch_size):
            pooled = [layer(x, batch, dim_size=batch_size) for layer in (self.draw_one, self.draw_two)]
            return self.output(sum(pooled)).squeeze(-1)

    result = fit(make_model=Tied, epochs=1)
    assert result.watched == ["draw_one.p", "draw_one.growth", "draw_two.growth"]


class TestDivergence:
    SETTINGS = (RATES, Setting(lr=1e30), Setting(lr=1e-3))

    def test_is_recorded_and_touches_no_neighbour(self):
        result = fit(settings=self.SETTINGS, unit=6)
        assert [run.failed is not None for run in result.runs] == [False, False, True, True, False, False]
        assert result.runs[2].failed == "the loss or its gradient was not finite in epoch 0"
        healthy = fit(settings=(RATES, RATES, Setting(lr=1e-3)), unit=6)
        for k in (0, 1, 4, 5):  # kernels choose their path for a block of channels, so that rounding may differ
            for (name, a), b in zip(result.state_dict(k).items(), healthy.state_dict(k).values(), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, msg=name)
        assert bool(result.curve("train")[:, 2].isnan().all())

    def test_has_no_score(self):
        result = fit(settings=self.SETTINGS)
        scores = result.evaluate(Batches(VALIDATION, 3, seed=None), {"mse": squared})["mse"]
        assert scores.isnan().tolist() == [False, False, True, True, False, False]
        assert result.best_setting() in (RATES, Setting(lr=1e-3))

    def test_after_a_good_epoch_keeps_its_weights(self):
        result = fit(settings=Setting(lr=3e-3), schedule=lambda epoch: 1.0 if epoch < 2 else 1e30, epochs=4)
        assert all(run.failed and run.best["loss"].epoch == 1 for run in result.runs)
        assert result.evaluate(Batches(VALIDATION, 3, seed=None), {"mse": squared})["mse"].isfinite().all()


def test_without_validation_the_last_epoch_counts():
    result = fit(validation=None)
    assert [run.best["loss"].epoch for run in result.runs] == [3, 3]


def test_a_schedule_scales_all_rates():
    halved = fit(settings=RATES, schedule=lambda epoch: 0.5)
    lower = fit(settings=Setting(lr=1.5e-3, lr_p=1.5e-2))
    torch.testing.assert_close(halved.curve("loss"), lower.curve("loss"), rtol=1e-5, atol=0)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_number_of_workers_changes_no_bit(workers):
    settings = Setting.grid(lr=[1e-2, 1e-3])
    assert_same(fit(settings=settings, unit=1, workers=workers), fit(settings=settings, unit=1, workers=4))


def test_threads_of_torch_are_as_before():
    threads = torch.get_num_threads()
    fit(epochs=1)
    assert torch.get_num_threads() == threads


class TestResume:
    class InterruptError(Exception):
        pass

    @pytest.mark.parametrize("kind", ["gnp", "gnpg", "batch_norm", "dropout"])
    def test_gives_the_same_result(self, tmp_path, kind):
        options = {"make_model": lambda: Net(kind), "unit": 1, "epochs": 6, "criteria": {"mae": absolute}}
        seen = []

        def interrupt(progress):
            seen.append(progress)
            if progress.epoch in (2, 4):
                raise self.InterruptError

        for _ in range(2):
            with pytest.raises(self.InterruptError):
                fit(**options, checkpoint=tmp_path, progress=interrupt)
        assert_same(fit(**options, checkpoint=tmp_path), fit(**options))
        assert max(progress.epoch for progress in seen) < 6

    def test_in_the_middle_of_an_epoch(self, tmp_path):
        calls = []

        def loss(prediction, batch):
            calls.append(1)
            if len(calls) == 7:  # an epoch has four batches
                raise self.InterruptError
            return squared(prediction, batch)

        options = {"seeds": 1, "epochs": 3, "batch_size": 5}
        with pytest.raises(self.InterruptError):
            fit_many(Net, TRAIN, loss, RATES, **options, checkpoint=tmp_path, vectorize=True)
        assert_same(
            fit_many(Net, TRAIN, loss, RATES, **options, checkpoint=tmp_path),
            fit_many(Net, TRAIN, squared, RATES, **options),
        )

    @pytest.mark.parametrize("kind", ["gnp", "gnpg", "batch_norm", "dropout"])
    @pytest.mark.parametrize("stop", [1, 2, 5, 8, 10])
    def test_check_ends_it_before_a_step(self, tmp_path, kind, stop):
        looks = []

        def check():
            looks.append(1)
            if len(looks) == stop:
                raise self.InterruptError

        options = {"make_model": lambda: Net(kind), "unit": 3, "workers": 1, "epochs": 2, "batch_size": 5}
        with pytest.raises(self.InterruptError):
            fit(**options, checkpoint=tmp_path, check=check)
        assert len(looks) == stop  # what was still to begin is not begun
        assert_same(fit(**options, checkpoint=tmp_path, check=check), fit(**options))

    def test_of_a_finished_study_trains_nothing(self, tmp_path):
        first = fit(checkpoint=tmp_path)
        seen = []
        assert_same(fit(checkpoint=tmp_path, progress=seen.append), first)
        assert seen == []

    def test_interrupt_from_the_keyboard(self, tmp_path):
        """Ctrl-C reaches the main thread while units run in others; they stop between steps and save."""

        def press(progress):
            if progress.epoch == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit(unit=1, checkpoint=tmp_path, progress=press, epochs=5)
        assert_same(fit(unit=1, checkpoint=tmp_path, epochs=5), fit(unit=1, epochs=5))

    @pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
    def test_from_a_damaged_checkpoint_starts_anew(self, tmp_path, damage):
        expected = fit(checkpoint=tmp_path)
        path = tmp_path / "unit0000.safetensors"
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[-9] ^= 1
        path.write_bytes({"truncate": content[:-5], "flip": content, "empty": b""}[damage])
        with pytest.warns(UserWarning, match="is damaged"):
            result = fit(checkpoint=tmp_path)
        assert_same(result, expected)
        assert (tmp_path / "unit0000.safetensors.damaged").exists()

    @pytest.mark.parametrize(
        "other",
        [
            {"seeds": [8, 9]},
            {"settings": Setting(lr=1.0)},
            {"epochs": 5},
            {"batch_size": 6},
            {"validation": VALIDATION[:3]},
            {"schedule": lambda epoch: 0.5},
            {"make_model": OtherNet},
        ],
        ids=["seeds", "settings", "epochs", "batch_size", "validation", "schedule", "model"],
    )
    def test_of_another_study_is_refused(self, tmp_path, other):
        fit(checkpoint=tmp_path)
        before = (tmp_path / "unit0000.safetensors").read_bytes()
        with pytest.raises(ValueError, match="belongs to another study"):
            fit(checkpoint=tmp_path, **other)
        assert (tmp_path / "unit0000.safetensors").read_bytes() == before

    def test_a_full_disk_is_a_clear_error(self, tmp_path, monkeypatch):
        fit(checkpoint=tmp_path, epochs=4)
        kept = (tmp_path / "unit0000.safetensors").read_bytes()

        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match=r"cannot write the checkpoint \(No space left on device\)"):
            fit(checkpoint=tmp_path, epochs=4)
        assert (tmp_path / "unit0000.safetensors").read_bytes() == kept
        assert len(list(tmp_path.iterdir())) == 1

    def test_saves_now_and_then(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fit_module, "CHECKPOINT_SECONDS", 0.0)
        sizes = []
        fit(checkpoint=tmp_path, progress=lambda p: sizes.append((tmp_path / "unit0000.safetensors").stat().st_size))
        assert len(sizes) == 4


def test_progress():
    seen = []
    fit(unit=1, workers=1, progress=seen.append, settings=(RATES, Setting(lr=1e30)), seeds=1, epochs=2)
    assert [(p.unit, p.units, p.epoch, p.epochs, p.failed) for p in seen] == [
        (0, 2, 1, 2, 0), (0, 2, 2, 2, 0), (1, 2, 1, 2, 1), (1, 2, 2, 2, 1),
    ]  # fmt: skip
    assert seen[0].best["loss"] > 0
    assert seen[2].best == {"loss": math.inf}
    assert all(p.seconds > 0 for p in seen)


class NotForVmap(Net):
    def forward(self, x, edge_index, batch, batch_size):
        out = super().forward(x, edge_index, batch, batch_size)
        return out if out.sum().item() > -1e9 else -out


def test_a_module_that_does_not_vmap_is_trained_in_a_loop():
    with pytest.warns(UserWarning, match="NotForVmap does not work under torch.vmap"):
        result = fit(NotForVmap)
    assert_same(result, fit(vectorize=False))
    torch.testing.assert_close(result.curve("loss"), fit().curve("loss"), rtol=1e-4, atol=1e-6)
    with pytest.raises(RuntimeError, match="vmap"):
        fit(NotForVmap, vectorize=True)


class Attention(torch.nn.Module):
    """Its dropout is no module: PyG's convolution calls the function of torch."""

    def __init__(self):
        super().__init__()
        self.conv, self.output = GATConv(2, 6, dropout=0.5), torch.nn.Linear(6, 1)

    def forward(self, x, edge_index, batch, batch_size):
        return self.output(global_add_pool(self.conv(x, edge_index), batch, size=batch_size)).squeeze(-1)


@pytest.mark.parametrize("make", [lambda: Net("dropout"), Attention], ids=["module", "function"])
def test_dropout_draws_for_each_run_and_repeats(make):
    result = fit(make, seeds=[1, 1])
    assert not torch.equal(*result.curve("train").unbind(1))
    assert_same(result, fit(make, seeds=[1, 1]))


def test_frozen_and_shared_parameters():
    def make():
        net = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
        net["b"].weight = net["a"].weight
        net["a"].bias.requires_grad_(False)
        return net

    def forward(model, batch):
        return model(batch.x)

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = make()

        def forward(self, x):
            return self.parts["b"](self.parts["a"](x).relu()).sum(1)

    def loss(prediction, batch):
        return (prediction - 1).square()

    result = fit_many(Tied, TRAIN, loss, Setting(lr=1e-2), seeds=2, epochs=2)
    start = fit_many(Tied, TRAIN, loss, Setting(lr=0.0), seeds=2, epochs=1)
    for k in (0, 1):
        trained, initial = result.state_dict(k), start.state_dict(k)
        assert torch.equal(trained["parts.a.weight"], trained["parts.b.weight"])
        assert torch.equal(trained["parts.a.bias"], initial["parts.a.bias"])
        assert not torch.equal(trained["parts.a.weight"], initial["parts.a.weight"])
        result.model(k)


def test_data_may_be_ready_batches_or_a_loader():
    ready = [PygBatch.from_data_list(TRAIN[i : i + 5]) for i in range(0, 20, 5)]
    loader = DataLoader(TRAIN, batch_size=5)
    options = {"seeds": 2, "epochs": 3, "validation": [PygBatch.from_data_list(VALIDATION)]}
    a = fit_many(Net, ready, squared, RATES, **options, forward=_pyg_call)
    b = fit_many(Net, loader, squared, RATES, **options, forward=_pyg_call)
    c = fit_many(Net, Batches(TRAIN, 5, seed=None), squared, RATES, seeds=2, epochs=3, validation=VALIDATION)
    assert_same(a, b)
    assert_same(a, c)


def _pyg_call(model, batch):
    return model(batch.x, batch.edge_index, batch.batch, batch.num_graphs)


def test_a_loss_may_be_a_mean():
    mean = fit_many(
        Net, TRAIN, lambda p, b: torch.nn.functional.mse_loss(p, b.y.float()), RATES, epochs=2, validation=VALIDATION
    )
    each = fit_many(Net, TRAIN, squared, RATES, epochs=2, validation=VALIDATION)
    torch.testing.assert_close(mean.curve("loss"), each.curve("loss"), rtol=1e-4, atol=0)


def test_a_module_may_take_the_batch_as_a_whole():
    class Whole(Net):
        def forward(self, data):
            return super().forward(data.x, data.edge_index, data.batch, data.batch_size)

    assert_same(fit(Whole), fit())


def test_items_of_weight_zero_do_not_count():
    marked = [copy.copy(graph) for graph in TRAIN + graphs(5, seed=9)]
    for k, graph in enumerate(marked):
        graph.weight = torch.tensor([float(k < len(TRAIN))])
        if k >= len(TRAIN):
            graph.y = torch.tensor([1e9], dtype=torch.float64)

    def ratio(prediction, batch):  # infinite on items that do not count
        return squared(prediction, batch) / (batch.y < 1e9)

    results = []
    for data in (marked, TRAIN):
        batches = Batches(data, 25, seed=None)
        options = {"validation": batches, "criteria": {"ratio": ratio}}
        results.append(fit_many(Net, batches, squared, RATES, seeds=2, epochs=3, **options))
    for name in ("train", "loss", "ratio"):
        torch.testing.assert_close(results[0].curve(name), results[1].curve(name), rtol=1e-4, atol=0, msg=name)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"settings": []}, ValueError, "'settings' and 'seeds' must not be empty, got 0 and 2"),
        ({"seeds": 0}, ValueError, "must not be empty, got 1 and 0"),
        ({"epochs": 0}, ValueError, "'epochs' must be at least 1, got 0"),
        ({"unit": 0}, ValueError, "'unit' must be at least 1, got 0"),
        ({"workers": 0}, ValueError, "'workers' must be at least 1, got 0"),
        ({"criteria": {"loss": squared}}, ValueError, "must not have the name 'loss'"),
        ({"validation": iter(VALIDATION)}, TypeError, "iterator"),
        ({"make_model": lambda: 3}, TypeError, "must return a torch.nn.Module, got int"),
        ({"make_model": torch.nn.ReLU}, ValueError, "without trainable parameters"),
        ({"make_model": lambda: torch.nn.Linear(1, int(torch.rand(()) * 50) + 1)}, ValueError, "one architecture"),
        ({"make_model": lambda: torch.nn.LazyLinear(1)}, ValueError, "'weight' is not initialised"),
        ({"make_model": lambda: torch.nn.Bilinear(1, 1, 1)}, ValueError, "needs 'input1', 'input2'"),
    ],
)
def test_errors(options, error, match):
    with pytest.raises(error, match=match):
        fit(**options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_no_gpu():
    with pytest.raises(ValueError, match="torch finds no GPU here"):
        fit(device="cuda")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"lr": -1.0}, "'lr' must be at least 0 and finite, got -1.0"),
        ({"lr": 1.0, "optimizer": "sgd"}, "'optimizer' must be one of rmsprop, adam, got 'sgd'"),
        ({"lr": 1.0, "clip": 0}, "'clip' must be above 0"),
        ({"lr": 1.0, "lr_p": math.nan}, "'lr_p' must be at least 0 and finite, got nan"),
        ({"lr": 1.0, "betas": (0.9, 1.0)}, r"'betas' must lie in \[0, 1\), got 1.0"),
    ],
)
def test_setting_errors(options, match):
    with pytest.raises(ValueError, match=match):
        Setting(**options)


def test_setting_goes_through_json():
    setting = Setting(lr=1e-2, lr_p=3e-2, optimizer="adam", betas=(0.5, 0.999))
    assert Setting(**json.loads(json.dumps(setting.to_dict()))) == setting


@pytest.mark.parametrize("kind", ["gnp", "gnpg", "batch_norm", "gcn"])
@pytest.mark.parametrize("lr", [1e30, 1e4])
def test_a_run_that_diverges_changes_no_bit_of_the_others(kind, lr):
    settings = [RATES, Setting(lr=1e-2, lr_p=1e-1, optimizer="adam")]
    found = {}
    for name, rate in (("wild", lr), ("tame", 1e-3)):
        third = Setting(lr=rate, lr_p=rate, lr_q=rate)
        found[name] = fit(lambda: Net(kind), [*settings, third], seeds=3, epochs=6, unit=9)
    wild, tame = found["wild"], found["tame"]
    assert lr < 1e30 or all(run.failed for run in wild.runs[6:])
    assert not any(run.failed for run in tame.runs)
    for run in range(6):
        assert wild.runs[run] == tame.runs[run]
        left, right = wild.state_dict(run), tame.state_dict(run)
        assert all(torch.equal(left[name], right[name]) for name in left)
    for name in ("train", "loss", *tame.watched):
        assert torch.equal(wild.curve(name)[:, :6], tame.curve(name)[:, :6]), name
