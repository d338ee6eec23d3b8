"""The step of :class:`~gnpool.training.optimizer.StackedOptimizer` on the CPU, in one pass instead of some thirty."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,assignment"

import math

import numpy as np

from gnpool.ops.cpu.arithmetic import BLOCK, cast, compiled, pointer, stack


@compiled
def step_kernel(args, clip_eps):
    """Updates flat, first and second of the replicas that are alive; ``decay_at`` = 0 means no weight decay.

    New values go to buffers on the stack first. They alias nothing that is read, so that the loop is vectorised.
    """
    (flat_at, gradient_at, norm_at, alive_at, first_at, second_at, rate_at, decay_at) = args[:8]
    (adam_at, beta1_at, beta2_at, eps_at, clip_at, scale_at, steps_at, R, P) = args[8:]
    flat, first, second = pointer(flat_at, clip_eps), pointer(first_at, clip_eps), pointer(second_at, clip_eps)
    gradient, decay = pointer(gradient_at, clip_eps), pointer(decay_at, clip_eps)
    norm, clip, eps = pointer(norm_at, clip_eps), pointer(clip_at, clip_eps), pointer(eps_at, clip_eps)
    beta1, beta2, rate = pointer(beta1_at, 0.0), pointer(beta2_at, 0.0), pointer(rate_at, 0.0)
    adam, alive = pointer(adam_at, np.int8(0)), pointer(alive_at, np.int8(0))
    scale, steps = pointer(scale_at, 0.0)[0], pointer(steps_at, 0.0)[0]
    zero, one = cast(0.0, clip_eps), cast(1.0, clip_eps)
    m_t, v_t, x_t, d_t = stack(clip_eps), stack(clip_eps), stack(clip_eps), stack(clip_eps)
    for d in range(BLOCK):
        d_t[d] = zero
    for r in range(R):
        if alive[r] == 0:
            continue
        speed, root = scale, one
        if adam[r] != 0:
            speed = scale / (1.0 - beta1[r] ** steps)
            root = cast(math.sqrt(1.0 - beta2[r] ** steps), clip_eps)
        old1, new1 = cast(beta1[r], clip_eps), cast(1.0 - beta1[r], clip_eps)
        old2, new2 = cast(beta2[r], clip_eps), cast(1.0 - beta2[r], clip_eps)
        shorter, least = min(one, clip[r] / (norm[r] + clip_eps)), eps[r]
        for at in range(r * P, (r + 1) * P, BLOCK):
            nb = min(np.int64(BLOCK), (r + 1) * P - at)
            if decay_at != 0:
                for d in range(nb):
                    d_t[d] = decay[at + d]
            for d in range(nb):
                x = flat[at + d]
                g = gradient[at + d] * shorter + d_t[d] * x
                m = old1 * first[at + d] + new1 * g
                v = old2 * second[at + d] + new2 * (g * g)
                m_t[d], v_t[d] = m, v
                x_t[d] = x - cast(rate[at + d] * speed, clip_eps) * m / (math.sqrt(v) / root + least)
            for d in range(nb):
                first[at + d] = m_t[d]
            for d in range(nb):
                second[at + d] = v_t[d]
            for d in range(nb):
                flat[at + d] = x_t[d]
