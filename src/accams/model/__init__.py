"""What is learned: stencil sums, their size and their file."""
