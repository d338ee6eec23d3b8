"""The Triton kernels compile for real GPUs: the interpreter does not show it, and it needs no GPU."""

import pytest

from tests.compiling import cubin_sizes

pytest.importorskip("triton")

CODE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from gnpool.influence import cascade_cuda, cascade_triton

TYPES = dict.fromkeys(("W", "N", "blocks"), "i32") | dict.fromkeys(("changed", "counts", "sizes"), "*i32")
BLOCKS = {"spread": cascade_cuda.SPREAD_BLOCK, "count": cascade_cuda.COUNT_BLOCK, "size": cascade_cuda.SIZE_BLOCK}
for name, block in BLOCKS.items():
    kernel = getattr(cascade_triton, f"{name}_kernel")
    constants = {"BW": block, "ROWS": cascade_cuda.SIZE_ROWS}
    names = kernel.arg_names
    signature = {n: "constexpr" if n in constants else TYPES.get(n, "*i64") for n in names}
    fixed = {(i,): constants[n] for i, n in enumerate(names) if n in constants}
    source = triton.compiler.ASTSource(kernel, signature, fixed)
    binary = triton.compile(source, target=GPUTarget("cuda", int(sys.argv[1]), 32), options={"num_warps": 1})
    print(name, len(binary.asm["cubin"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_every_kernel_compiles(capability, tmp_path):
    sizes = cubin_sizes(CODE, capability, tmp_path)
    assert len(sizes) == 3
    assert min(sizes) > 1000
