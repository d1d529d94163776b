#!/bin/sh
# Compiled kernels are read from a folder that numba must be able to write to: a copy in memory.
mkdir -p "$NUMBA_CACHE_DIR" && cp -r /accams/kernels/. "$NUMBA_CACHE_DIR"
exec accams serve --host 0.0.0.0 "$@"
