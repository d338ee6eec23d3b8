from __future__ import annotations

import importlib.metadata
import importlib.resources
import subprocess
import sys

import pytest

import gnpool

PUBLIC = {
    "Batches",
    "GNPAggregation",
    "GNPClassifier",
    "GNPConv",
    "GNPRegressor",
    "Setting",
    "__version__",
    "crystallize",
    "export_model",
    "find_law",
    "fit_many",
    "fit_portfolio",
    "load_model",
    "norm_pool",
    "norm_pool_neighbors",
    "param_groups",
    "read",
    "register_with_pyg",
    "save_model",
}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("package", ["numba", "triton"])
def test_import_leaves_kernel_compilers_alone(package: str) -> None:
    assert run(f"import sys, gnpool; print({package!r} in sys.modules)") == "False"


def test_import_works_without_kernel_compilers() -> None:
    # None in sys.modules makes an import of that name fail as if the package were not installed.
    block = "import sys; sys.modules['numba'] = sys.modules['triton'] = None; import gnpool"
    assert run(f"{block}; print([hasattr(gnpool, name) for name in gnpool.__all__].count(False))") == "0"


def test_public_names() -> None:
    assert set(gnpool.__all__) == PUBLIC
    assert len(gnpool.__all__) == len(PUBLIC)
    for name in gnpool.__all__:
        assert getattr(gnpool, name) is not None, name


def test_star_import() -> None:
    namespace: dict[str, object] = {}
    exec("from gnpool import *", namespace)  # noqa: S102 -- a star import is only legal at module level
    assert set(namespace) >= PUBLIC


def test_version_is_the_installed_one() -> None:
    assert gnpool.__version__ == importlib.metadata.version("gnpool")


@pytest.mark.parametrize("path", ["py.typed", "ops/README.md"])
def test_package_data_is_there(path: str) -> None:
    assert importlib.resources.files("gnpool").joinpath(path).is_file()
