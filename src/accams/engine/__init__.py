"""Engines that run passes over the data: one contract for CPU, GPU, disk and cluster."""
