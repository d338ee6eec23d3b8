"""The Triton kernels compile for real GPUs: the interpreter does not show it, and it needs no GPU."""

import pytest

from tests.compiling import cubin_sizes

pytest.importorskip("triton")

CODE = """
import itertools, sys
import triton
from triton.backends.compiler import GPUTarget
from gnpool.ops.cuda import arithmetic, backward, forward
from gnpool.ops.form import KEEP, NORM, REMOVE

TYPES = {"p": "*fp64", "q": "*fp64", "eps": "fp32"}
TYPES |= dict.fromkeys(("S", "E", "D", "chunks", "blocks", "rows", "width", "stats", "CHUNK", "STEPS"), "i32")
TYPES |= dict.fromkeys(("ptr", "col", "eid", "row", "starts"), "*i64") | {"flags": "*i32"}
TYPES |= dict.fromkeys(("sums", "totals"), "*fp64")
SIZES = {"BR": 2, "BD": 16, "BLOCK": 32, "ROWS": 16, "DIGITS": 40}
CASES = list(itertools.product((False, True), ("*fp32", "*bf16"), (NORM,)))
CASES += [(False, "*fp32", REMOVE), (True, "*bf16", KEEP)]
for flag, x, form in CASES:
    names = ("RELU", "DENORMAL", "HAS_COL", "HAS_W", "HAS_EID", "NEED_X", "NEED_W", "SHARED", "EVEN")
    constants = SIZES | {"R": 2 if flag else 1, "FORM": form} | dict.fromkeys(names, flag)
    types = TYPES | {"x": x, "grad_x": x}
    for module in (arithmetic, forward, backward):
        for name in sorted(vars(module)):
            if name.endswith("_kernel"):
                kernel = getattr(module, name)
                names = kernel.arg_names
                if form != NORM and "FORM" not in names:
                    continue
                signature = {n: "constexpr" if n in constants else types.get(n, "*fp32") for n in names}
                fixed = {(i,): constants[n] for i, n in enumerate(names) if n in constants}
                source = triton.compiler.ASTSource(kernel, signature, fixed)
                target = GPUTarget("cuda", int(sys.argv[1]), 32)
                binary = triton.compile(source, target=target, options={"num_warps": 1})
                print(name, len(binary.asm["cubin"]))
"""


@pytest.mark.parametrize("capability", [80, 90])
def test_every_kernel_compiles(capability, tmp_path):
    sizes = cubin_sizes(CODE, capability, tmp_path)
    assert len(sizes) == 4 * 10 + 2 * 5
    assert min(sizes) > 1000
