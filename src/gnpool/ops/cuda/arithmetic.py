"""Parts that the Triton kernels share: one-instruction mathematics, loads, and the division of the work.

Work is cut along the merge path of segments and entries: chunk i is the CHUNK steps from i * CHUNK on, where a step is
one entry or the end of one segment. The cut depends only on shapes, many programs share long segments and runs of
empty ones, and parts are merged in the order of the chunks: the same input gives the same bits.

Prefixes in all kernels: i_ program index, o_ offsets, m_ mask, b_ values in registers. Sizes are capitals: D channels,
S segments; a tile has R rows and BD channels, a round BR tiles. All sums are float32. ``l`` is log2(u / M), exactly 0
at a tie with M.
"""

# ruff: noqa: D103 -- the parameters are described where backend.py launches the kernels

from __future__ import annotations

import os

import triton
import triton.language as tl

from gnpool.ops import form

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

HUGE = tl.constexpr(1e30)  # replaces infinity: times an exact 0 it is still 0
NEGLIGIBLE = tl.constexpr(-200.0)  # 2 to this is 0 in float32
LN2 = tl.constexpr(0.6931471805599453)

# The forms of gnpool.ops.form, as integers that the kernels compare.
NORM = tl.constexpr(form.NORM)
KEEP = tl.constexpr(form.KEEP)
REMOVE = tl.constexpr(form.REMOVE)

# One instruction each; tl.log2 is a routine of twenty, and tl.exp2 handles denormal results, which are not needed here.
if INTERPRETED:

    @triton.jit
    def log2(x):
        return tl.log2(x)

    @triton.jit
    def log2_denormal(x):
        return tl.log2(x)

    @triton.jit
    def exp2(x):
        return tl.exp2(x)

    @triton.jit
    def reciprocal(x):
        return 1.0 / x

    @triton.jit
    def above(z, limit, value, RELU: tl.constexpr):
        return tl.where(magnitude(z, RELU) <= limit, 0.0, value)

    @triton.jit
    def above_and_count(z, limit, value, count, RELU: tl.constexpr):
        m = magnitude(z, RELU) <= limit
        return tl.where(m, 0.0, value), count + tl.where(m, 0.0, 1.0)

else:

    @triton.jit
    def log2(x):
        return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)

    @triton.jit
    def log2_denormal(x):
        return tl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)

    @triton.jit
    def exp2(x):
        return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)

    @triton.jit
    def reciprocal(x):
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)

    @triton.jit
    def above(z, limit, value, RELU: tl.constexpr):
        """The value, or 0 if the magnitude of z is at most the limit. The absolute value costs nothing in a test."""
        if RELU:
            return tl.where(magnitude(z, RELU) <= limit, 0.0, value)
        else:  # noqa: RET505 -- both branches must return for the compiler
            return tl.inline_asm_elementwise(
                "{.reg .f32 v; .reg .pred k; abs.f32 v, $1; setp.gtu.f32 k, v, $2; selp.f32 $0, $3, 0f00000000, k;}",
                "=f,f,f,f", [z, limit, value], tl.float32, True, 1,
            )  # fmt: skip

    @triton.jit
    def above_and_count(z, limit, value, count, RELU: tl.constexpr):
        """The value as from :func:`above`, and the count, plus one if the magnitude is above: one more instruction."""
        if RELU:
            m = magnitude(z, RELU) <= limit
            return tl.where(m, 0.0, value), count + tl.where(m, 0.0, 1.0)
        else:  # noqa: RET505 -- both branches must return for the compiler
            return tl.inline_asm_elementwise(
                "{.reg .f32 v; .reg .pred k; abs.f32 v, $2; setp.gtu.f32 k, v, $3; selp.f32 $0, $4, 0f00000000, k;"
                " mov.f32 $1, $5; @k add.f32 $1, $5, 0f3F800000;}",
                "=&f,=&f,f,f,f,f", [z, limit, value, count], (tl.float32, tl.float32), True, 1,
            )  # fmt: skip


@triton.jit
def magnitude(z, RELU: tl.constexpr):
    if RELU:
        return tl.maximum(z, 0.0, propagate_nan=tl.PropagateNan.ALL)
    else:  # noqa: RET505 -- both branches must return for the compiler
        return tl.abs(z)


@triton.jit
def unit_of(b_M, DENORMAL: tl.constexpr):
    """The data of M that :func:`log_ratio` needs: a scale, M times it, and the inverse of that.

    DENORMAL: M may be so small that 1/M overflows (only without a tolerance); then everything is scaled up.
    """
    b_scale = b_M
    if DENORMAL:
        b_scale = tl.where(b_M < 1e-30, 1.8446744e19, 1.0)
        b_M = b_M * b_scale
    return b_scale, b_M, 1.0 / b_M


@triton.jit
def log_ratio(b_u, b_scale, b_M, b_inverse, DENORMAL: tl.constexpr):
    """log2(u / M), exactly 0 at a tie; infinite if the ratio is 0 or infinite. The last arguments are ``unit_of(M)``.

    A large exponent multiplies the error, which counts near the extreme; there a series for 2 atanh(s) / ln 2 is used.
    """
    if DENORMAL:
        b_u = b_u * b_scale
        b_l = log2_denormal(b_u * b_inverse)
    else:
        b_l = log2(b_u * b_inverse)
    b_off = (b_u - b_M) * b_inverse
    b_s = b_off * reciprocal(b_off + 2.0)
    b_square = b_s * b_s
    b_series = tl.fma(tl.fma(0.58864695, b_square, 0.9617296), b_square, 2.88539)
    b_l = tl.where(tl.abs(b_off) < 0.25, b_s * b_series, b_l)
    return tl.where(b_u == b_M, 0.0, b_l)


@triton.jit
def wide_log_ratio(b_u, b_scale, b_M, b_inverse, DENORMAL: tl.constexpr):
    """Compute :func:`log_ratio`, even if the ratio itself is too large or too small for a float."""
    return widened(log_ratio(b_u, b_scale, b_M, b_inverse, DENORMAL), b_u, b_scale, b_M, DENORMAL)


@triton.jit
def widened(b_l, b_u, b_scale, b_M, DENORMAL: tl.constexpr):
    """The result of :func:`log_ratio`, or the difference of two logarithms if its quotient was out of range."""
    b_far = log2_denormal(b_u) - log2_denormal(b_M) + log2(b_scale) if DENORMAL else log2(b_u) - log2(b_M)
    return tl.where(tl.abs(b_l) < 100.0, b_l, b_far)


@triton.jit
def all_moderate(b_p, m_d, DENORMAL: tl.constexpr):
    """Whether all channels have 1 <= |p| <= 8: then the hardware's logarithm is accurate enough, without a series."""
    m = (tl.abs(b_p) >= 1.0) & (tl.abs(b_p) <= 8.0) & (not DENORMAL)
    return tl.min((m | ~m_d).to(tl.int32), axis=0) > 0


@triton.jit
def channels(i_block, D, BD: tl.constexpr, EVEN: tl.constexpr):
    """The channels of a block, and the mask of those that exist: all, if EVEN."""
    o_d = i_block * BD + tl.arange(0, BD)
    return o_d, (tl.full([BD], True, tl.int1) if EVEN else o_d < D)


@triton.jit
def places(col, k, stop, o_d, m_d, D, R: tl.constexpr, HAS_COL: tl.constexpr, WHOLE: tl.constexpr):
    """The places in x of the R entries from k on, as offsets and mask, and the offsets and mask of the entries alone.

    WHOLE says that all of them lie before ``stop``, so that no entry is masked.
    """
    o_e = k + tl.arange(0, R)
    m_e = tl.full([R], True, tl.int1) if WHOLE else o_e < stop
    o_row = o_e
    if HAS_COL:
        o_row = tl.load(col + o_e, mask=m_e, other=0)
    return o_row.to(tl.int64)[:, None] * D + o_d[None, :], m_e[:, None] & m_d[None, :], o_e, m_e


@triton.jit
def rows(x, col, k, stop, o_d, m_d, D, R: tl.constexpr, HAS_COL: tl.constexpr, WHOLE: tl.constexpr):
    """The R entries from k on as float32, and their :func:`places`."""
    o_x, m, o_e, m_e = places(col, k, stop, o_d, m_d, D, R, HAS_COL, WHOLE)
    return tl.load(x + o_x, mask=m, other=0.0).to(tl.float32), o_x, m, o_e, m_e


@triton.jit
def weights(weight, eid, o_e, m_e, HAS_EID: tl.constexpr):
    if HAS_EID:
        o_e = tl.load(eid + o_e, mask=m_e, other=0)
    return tl.load(weight + o_e, mask=m_e, other=0.0).to(tl.float32), o_e


@triton.jit
def entries(
    x, weight, col, eid, k, stop, o_d, m_d, D, R: tl.constexpr, HAS_COL: tl.constexpr, HAS_W: tl.constexpr,
    HAS_EID: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """z of the R entries from k on, and the mask of those that exist."""
    b_z, _, m, o_e, m_e = rows(x, col, k, stop, o_d, m_d, D, R, HAS_COL, WHOLE)
    if HAS_W:
        b_w, _ = weights(weight, eid, o_e, m_e, HAS_EID)
        b_z = b_z * b_w[:, None]
    return b_z, m


@triton.jit(do_not_specialize=["S", "E", "chunks", "CHUNK", "STEPS"])
def partition_kernel(ptr, starts, S, E, chunks, CHUNK, STEPS, BLOCK: tl.constexpr):
    """starts[i] = how many segments end at or before step i * CHUNK of the merge path."""
    o_i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m_i = o_i <= chunks
    o_step = tl.minimum(o_i.to(tl.int64) * CHUNK, S + E)
    b_low = tl.zeros([BLOCK], tl.int64)
    b_high = tl.zeros([BLOCK], tl.int64) + S
    for _ in range(STEPS):
        b_mid = (b_low + b_high + 1) // 2
        m_done = tl.load(ptr + b_mid, mask=m_i, other=0) + b_mid <= o_step
        b_low = tl.where(m_done, b_mid, b_low)
        b_high = tl.where(m_done, b_high, b_mid - 1)
    tl.store(starts + o_i, b_low, mask=m_i)
