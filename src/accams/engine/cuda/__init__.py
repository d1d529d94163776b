"""The `cuda` engine: observed cells on an NVIDIA GPU."""
