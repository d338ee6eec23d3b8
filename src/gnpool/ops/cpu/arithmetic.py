"""Vectorisable base-2 logarithm and exponential for the CPU kernels.

PyPI's Numba carries no SVML, so a call to ``math.log2`` would keep LLVM from vectorising the loop around it. The
helpers here are straight-line code: integer arithmetic on the bits of a float, one division and a short polynomial.

Two families share their names over float32 and float64:

* ``log2_ratio`` / ``exp2_weight``: the fast pair. It assumes normal, finite, positive numbers (see each docstring).
* ``log2_ratio_any`` / ``exp2_any``: float64 only, correct for zeros, denormals, infinities and NaN.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"
# Numba infers the types of compiled functions; nothing would check annotations.

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

#: ``fastmath=True`` would remove the rounding trick of exp2 and break NaN and inf; these three flags do neither.
FASTMATH = {"contract", "nsz", "arcp"}
#: Helpers must be inlined into the caller's loop, or it is not vectorised.
INLINE: dict[str, Any] = {"forceinline": True, "error_model": "numpy", "fastmath": FASTMATH, "no_cpython_wrapper": True}

_KERNEL: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}


def _sources_stamp() -> tuple[tuple[str, int, int], ...]:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def compiled(function: Callable[..., Any]) -> Any:
    """A kernel, compiled for each type on first use and kept on disk where that is possible.

    Without a place to write to, neither this call nor saving the code raises an error. Numba renews cached code when
    the kernel's own file changes; here every file of the backend counts, because helpers are compiled into the kernels.
    """
    try:
        kernel = njit(cache=True, **_KERNEL)(function)
    except RuntimeError:  # "cannot cache function: no locator available"
        return njit(**_KERNEL)(function)
    cache = kernel._cache
    # Compiled code loads without the data that the compiler needs; loading that would take longer than all the rest.
    load, save = getattr(cache, "_load_overload", cache.load_overload), cache.save_overload

    def load_overload(sig: Any, target_context: Any) -> Any:
        try:
            return load(sig, target_context)
        except Exception:  # a damaged or unreadable file: compile again
            return None

    def save_overload(sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            save(sig, data)

    cache.load_overload, cache.save_overload = load_overload, save_overload
    if hasattr(cache, "_cache_file") and hasattr(cache._cache_file, "_source_stamp"):
        with contextlib.suppress(OSError):
            cache._cache_file._source_stamp = (cache._cache_file._source_stamp, _sources_stamp())
    return kernel


#: Channels handled together: the size of every ``stack`` buffer.
BLOCK = 128

#: Values between two prefetches: a cache line of float32.
LINE = 16

_INT_OF = {types.float32: types.int32, types.float64: types.int64}
_FLOAT_OF = {types.int32: types.float32, types.int64: types.float64}


# Building blocks that Numba cannot express -------------------------------------------------------------------------


@intrinsic
def bits(typingctx: Any, x: Any) -> Any:
    """The bits of a float as a signed integer of the same width."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(sig.return_type))

    return _INT_OF[x](x), codegen


@intrinsic
def from_bits(typingctx: Any, i: Any) -> Any:
    """The float whose bits are ``i``."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(sig.return_type))

    return _FLOAT_OF[i](i), codegen


@intrinsic
def select(typingctx: Any, cond: Any, a: Any, b: Any) -> Any:
    """``a if cond else b`` without a branch; both are evaluated."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        second = context.cast(builder, args[2], sig.args[2], sig.args[1])
        return builder.select(context.cast(builder, args[0], sig.args[0], types.boolean), args[1], second)

    return a(cond, a, b), codegen


@intrinsic
def cast(typingctx: Any, x: Any, like: Any) -> Any:
    """``x`` in the type of ``like``; Numba's own integer arithmetic would widen to 64 bits."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.cast(builder, args[0], sig.args[0], sig.return_type)

    return like(x, like), codegen


@intrinsic
def pointer(typingctx: Any, address: Any, like: Any) -> Any:
    """An integer address as a pointer to values of the type of ``like``."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    return types.CPointer(like)(address, like), codegen


@intrinsic
def stack(typingctx: Any, like: Any) -> Any:
    """A buffer of ``BLOCK`` values on the stack: LLVM knows that nothing else points to it."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        shape = ir.ArrayType(context.get_value_type(sig.args[0]), BLOCK)
        with builder.goto_entry_block():
            slot = builder.alloca(shape)
            slot.align = 64
        return cgutils.gep(builder, slot, 0, 0)

    return types.CPointer(like)(like), codegen


@intrinsic
def fetch_add(typingctx: Any, counter: Any, amount: Any) -> Any:
    """Atomically adds to ``counter[0]`` and returns the value before."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", args[0], args[1], "monotonic")

    return types.int64(types.CPointer(types.int64), types.int64), codegen


@intrinsic
def prefetch(typingctx: Any, base: Any, i: Any) -> Any:
    """Asks the cache for ``base[i]``; it may lie anywhere."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        at = builder.bitcast(builder.gep(args[0], [args[1]]), byte)
        builder.call(hint, [at, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.none(base, types.int64), codegen


@njit(**INLINE)
def prefetch_row(base, i, nb):
    """Asks the cache for ``nb`` values from ``base[i]`` on."""
    for d in range(0, nb, LINE):
        prefetch(base, i + d)


# The fast pair -----------------------------------------------------------------------------------------------------


def log2_ratio(u: Any, m: Any) -> Any:
    """log2(u / m) for positive normal u, m with m < 2^126 (2^1022); exactly 0 where u == m.

    With k the nearest integer to the logarithm, read off the bits, and u' = u 2^-k in [m/1.5, 1.5 m], the rest is
    2 atanh(s) / ln 2 with s = (u' - m) / (u' + m), whose numerator is exact. Nothing overflows. u = 0 and denormal u
    count as about 2^-127 (2^-1023), u = inf counts as 2^128 (2^1024), NaN gives a finite value: callers exclude
    those where it matters.
    """
    raise TypeError("this function can only be called from compiled code")


def exp2_weight(t: Any) -> Any:
    """2^t for t <= 127; exactly 1 at 0, and exactly 0 from about -126.5 (-1022.5) down."""
    raise TypeError("this function can only be called from compiled code")


_F = np.float32
_MAGIC32 = _F(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer, left in the low bits


@njit(**INLINE)
def _log2_ratio32(u, m):
    ub = bits(u)
    j = np.int32(ub - bits(m) + 0x00400000)
    scaled = from_bits(np.int32(ub - (j & -0x00800000)))
    s = (scaled - m) / (scaled + m)
    t = s * s
    poly = _F(0.43922423859930962)
    poly = poly * t + _F(0.57638816071454289)
    poly = poly * t + _F(0.96180228603497604)
    poly = poly * t + _F(2.88539007471502505)
    return _F(np.int32(j >> 23)) + s * poly


@njit(**INLINE)
def _exp2_weight32(t):
    t = select(t < _F(-127.0), _F(-127.0), t)
    shifted = t + _MAGIC32
    f = t - (shifted - _MAGIC32)
    poly = _F(0.00015406713278246)
    poly = poly * f + _F(0.00133908960645532)
    poly = poly * f + _F(0.00961823006324462)
    poly = poly * f + _F(0.05550357133350165)
    poly = poly * f + _F(0.24022649825284936)
    poly = poly * f + _F(0.69314718798880952)
    poly = poly * f + _F(1.0)
    return poly * from_bits(np.int32((bits(shifted) << 23) + 0x3F800000))


@njit(**INLINE)
def _log2_ratio64(u, m):
    ub = bits(u)
    j = ub - bits(m) + 0x0008000000000000
    scaled = from_bits(ub - (j & -0x0010000000000000))
    s = (scaled - m) / (scaled + m)
    t = s * s
    poly = 0.22217236956605192678
    poly = poly * t + 0.21994849094108002352
    poly = poly * t + 0.26237737487471437781
    poly = poly * t + 0.32059758265625172799
    poly = poly * t + 0.41219859665208781255
    poly = poly * t + 0.57707801628723694498
    poly = poly * t + 0.96179669392610690647
    poly = poly * t + 2.8853900817779267734
    return np.float64(np.int32(j >> 52)) + s * poly


_MAGIC64 = 6755399441055744.0  # 1.5 * 2^52


@njit(**INLINE)
def _exp2_poly64(f):
    poly = 4.4465255469899507737e-10
    poly = poly * f + 7.0726114013818793042e-9
    poly = poly * f + 1.0178115918072272226e-7
    poly = poly * f + 1.3215442475753231717e-6
    poly = poly * f + 1.5252733711237176212e-5
    poly = poly * f + 1.540353044188809475e-4
    poly = poly * f + 1.3333558146524251892e-3
    poly = poly * f + 9.6181291076068234956e-3
    poly = poly * f + 5.5504108664821254683e-2
    poly = poly * f + 2.4022650695910098266e-1
    poly = poly * f + 6.9314718055994531114e-1
    return poly * f + 1.0


@njit(**INLINE)
def _exp2_weight64(t):
    t = select(t < -1023.0, -1023.0, t)
    shifted = t + _MAGIC64
    f = t - (shifted - _MAGIC64)
    return _exp2_poly64(f) * from_bits((bits(shifted) << 52) + 0x3FF0000000000000)


@overload(log2_ratio, strict=False)
def _log2_ratio(u: Any, m: Any) -> Any:
    chosen = _log2_ratio32 if u == types.float32 else _log2_ratio64
    return lambda u, m: chosen(u, m)


@overload(exp2_weight, strict=False)
def _exp2_weight(t: Any) -> Any:
    chosen = _exp2_weight32 if t == types.float32 else _exp2_weight64
    return lambda t: chosen(t)


# The careful pair, float64 -----------------------------------------------------------------------------------------

#: Stands for the logarithm of inf; finite, so that 0 times it is 0.
HUGE = 1e30


@njit(**INLINE)
def log2_ratio_any(u, m):
    """log2(u / m) for any u, m >= 0: 0 where u == m (inf / inf and 0 / 0 too), -+HUGE for a zero or infinite ratio."""
    low_u = u < 2.0**-900
    low_m = m < 2.0**-900
    high = m > 2.0**900
    us = select(low_u, u * 2.0**200, u)
    ms = select(low_m, m * 2.0**200, select(high, m * 2.0**-200, m))
    shift = select(low_m, 200.0, select(high, -200.0, 0.0)) - select(low_u, 200.0, 0.0)
    value = _log2_ratio64(us, ms) + shift
    value = select((u == 0.0) | (m == np.inf), -HUGE, value)
    value = select((m == 0.0) | (u == np.inf), HUGE, value)
    value = select(u == m, 0.0, value)
    return select((u != u) | (m != m), u + m, value)


@njit(**INLINE)
def exp2_parts(t):
    """2^t as three factors (a, b, c), so that a product with a large or small number can avoid over- and underflow."""
    t = select(t < -2000.0, -2000.0, t)
    t = select(t > 2000.0, 2000.0, t)
    shifted = t + _MAGIC64
    f = t - (shifted - _MAGIC64)
    k = np.int32(bits(shifted))
    first = np.int32(k >> 1)
    a = from_bits((np.int64(first) + 1023) << 52)
    c = from_bits((np.int64(np.int32(k - first)) + 1023) << 52)
    return a, _exp2_poly64(f), c


@njit(**INLINE)
def exp2_any(t):
    """2^t for any t; NaN stays NaN."""
    a, b, c = exp2_parts(t)
    return a * b * c


# The trio for exponents near 0, float64, with as many terms as the type of ``like`` needs ----------------------------


def log2_near(u: Any, m: Any, like: Any) -> Any:
    """``log2_ratio_any``, for u and m of the type of ``like``; the error is 1e-10 for float32."""
    raise TypeError("this function can only be called from compiled code")


def exp2_near(t: Any, like: Any) -> Any:
    """2^t for t <= 0; exactly 1 at 0. The error is 1e-10 for float32."""
    raise TypeError("this function can only be called from compiled code")


def second_near(t: Any, like: Any) -> Any:
    """E_1(t ln 2) with E_1(t) = ((t - 1) e^t + 1) / t^2, for t in [-1, 0]. The error is 1e-10 for float32."""
    raise TypeError("this function can only be called from compiled code")


@njit(**INLINE)
def _log2_near32(u, m):
    ub = bits(u)
    j = ub - bits(m) + 0x0008000000000000
    scaled = from_bits(ub - (j & -0x0010000000000000))
    s = (scaled - m) / (scaled + m)
    t = s * s
    poly = 0.34841608193298535385
    poly = poly * t + 0.41120515858286537578
    poly = poly * t + 0.57709235656962301571
    poly = poly * t + 0.96179662178814688766
    poly = poly * t + 2.8853900818358207231
    value = np.float64(np.int32(j >> 52)) + s * poly
    value = select((u == 0.0) | (m == np.inf), -HUGE, value)
    value = select((m == 0.0) | (u == np.inf), HUGE, value)
    value = select(u == m, 0.0, value)
    return select((u != u) | (m != m), u + m, value)


@njit(**INLINE)
def _exp2_near32(t):
    t = select(t < -1023.0, -1023.0, t)
    shifted = t + _MAGIC64
    f = t - (shifted - _MAGIC64)
    poly = 0.000015297323760701074108
    poly = poly * f + 0.00015461444698569129083
    poly = poly * f + 0.0013333502386162770741
    poly = poly * f + 0.0096180566785246380754
    poly = poly * f + 0.055504108839096183929
    poly = poly * f + 0.24022650922288758071
    poly = poly * f + 0.69314718055994530942
    poly = poly * f + 1.0
    return poly * from_bits((bits(shifted) << 52) + 0x3FF0000000000000)


@njit(**INLINE)
def _second_near32(t):
    poly = 0.000014200239894540682768
    poly = poly * t + 0.00018390166658775187604
    poly = poly * t + 0.0015986541081760163163
    poly = poly * t + 0.011099315393981292214
    poly = poly * t + 0.06005637776572473703
    poly = poly * t + 0.23104904469073246673
    return poly * t + 0.49999999984200763796


@njit(**INLINE)
def _second_near64(t):
    poly = 4.2799187252363576634e-10
    poly = poly * t + 8.8938725531592119313e-9
    poly = poly * t + 1.3168647428206747364e-7
    poly = poly * t + 1.6943642369837353304e-6
    poly = poly * t + 0.000019254209614569858674
    poly = poly * t + 0.00019047933267651985549
    poly = poly * t + 0.0016030215031360476438
    poly = poly * t + 0.011100821731120225486
    poly = poly * t + 0.060056626739657219988
    poly = poly * t + 0.23104906018664549089
    return poly * t + 0.49999999999999998783


@overload(log2_near, strict=False)
def _log2_near(u: Any, m: Any, like: Any) -> Any:
    chosen = _log2_near32 if like == types.float32 else log2_ratio_any
    return lambda u, m, like: chosen(u, m)


@overload(exp2_near, strict=False)
def _exp2_near(t: Any, like: Any) -> Any:
    chosen = _exp2_near32 if like == types.float32 else _exp2_weight64
    return lambda t, like: chosen(t)


@overload(second_near, strict=False)
def _second_near(t: Any, like: Any) -> Any:
    chosen = _second_near32 if like == types.float32 else _second_near64
    return lambda t, like: chosen(t)


# Facts about the two types -----------------------------------------------------------------------------------------


def float_facts(like: Any) -> Any:
    """(least, largest log2(m) for ``log2_ratio``; its values for 0 and inf; a log2 that is negligible)."""
    raise TypeError("this function can only be called from compiled code")


def int_facts(i: Any) -> Any:
    """(the least integer; the distance from the bits of inf to the second largest integer; all bits but the sign)."""
    raise TypeError("this function can only be called from compiled code")


@overload(float_facts, strict=False)
def _float_facts(like: Any) -> Any:
    facts = (-125.0, 126.0, -127.0, 128.0, 50.0) if like == types.float32 else (-1021.0, 1022.0, -1023.0, 1024.0, 70.0)
    return lambda like: facts


@overload(int_facts, strict=False)
def _int_facts(i: Any) -> Any:
    facts = (-(2**31), 2**23 - 2, 2**31 - 1) if i == types.int32 else (-(2**63), 2**52 - 2, 2**63 - 1)
    return lambda i: facts
