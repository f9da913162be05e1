"""The scikit-learn front: Magnet on feature vectors, and k-nearest-cluster classification alone."""

from magnet.estimator.classifier import MagnetClassifier
from magnet.estimator.nearest import NearestClustersClassifier

__all__ = ["MagnetClassifier", "NearestClustersClassifier"]
