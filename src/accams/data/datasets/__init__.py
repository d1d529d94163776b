"""Loaders of public data sets, from local files or downloaded from the official site.

A loader looks at its `path`, then in the folder ``$ACCAMS_DATA``, and then downloads into the user's cache
folder (``$ACCAMS_CACHE`` if set).
"""

from accams.data.datasets._base import Dataset, ImageDataset
from accams.data.datasets._faces import faces
from accams.data.datasets._graphs import as_graph, edge_list, gml
from accams.data.datasets._ratings import jester, movielens, netflix

__all__ = ["Dataset", "ImageDataset", "as_graph", "edge_list", "faces", "gml", "jester", "movielens", "netflix"]
