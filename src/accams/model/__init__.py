"""Models: stencil sums, posteriors, their size and their files."""
