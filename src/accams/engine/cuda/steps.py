"""What happens between two passes, drawn on the device so that nobody waits for Python: templates, weights of clusters.

The numbers are those of `accams.kernels.sample`: the same functions, compiled for the device.
"""

from __future__ import annotations

from numba import cuda

from accams.engine.cuda.kernels import mixed, on_device, uniform
from accams.kernels import sample

normal = on_device(sample.normal, uniform=uniform)
gamma = on_device(sample.gamma, mixed=mixed, uniform=uniform)
block_value = on_device(sample.block_value, normal=normal)
log_weight = on_device(sample.log_weight, gamma=gamma, uniform=uniform)


@cuda.jit
def draw_weights(counts, concentration, key0, key1, log_prior):
    """Log weights of the clusters of one axis, given how many have each label; one block."""
    for a in range(cuda.threadIdx.x, log_prior.size, cuda.blockDim.x):
        log_prior[a] = log_weight(counts[a], concentration, key0, key1, a)


@cuda.jit
def draw_template(N, L, kappa, spread, limit, key0, key1, T, counts, moved, all_counts, all_moved, gain):
    """The template given the tables, which are then empty again; adds up what the visit has to tell; one block."""
    thread, k = cuda.threadIdx.x, N.shape[1]
    for c in range(thread, N.size, cuda.blockDim.x):
        a, b = c // k, c % k
        T[a, b] = block_value(N[a, b], L[a, b], kappa, spread, limit, key0, key1, c)
    for a in range(thread, counts.size, cuda.blockDim.x):
        all_counts[a] = counts[a]
        counts[a] = 0
    cuda.syncthreads()
    if thread == 0:
        all_moved[0] += moved[0]
        moved[0] = 0
        total = 0.0
        for c in range(N.size):
            t = float(T[c // k, c % k])
            total += 2.0 * L[c // k, c % k] * t - N[c // k, c % k] * t * t
        gain[0] = total
    cuda.syncthreads()
    for c in range(thread, N.size, cuda.blockDim.x):
        N[c // k, c % k] = 0
        L[c // k, c % k] = 0
