"""Lists of recommendations, measured: protocols, rivals, ours, and the choice of settings."""
