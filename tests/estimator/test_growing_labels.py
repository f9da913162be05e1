"""Labels that join later."""

import numpy as np

from magnet import NearestClustersClassifier


def test_text_may_join_objects_that_are_text():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 3)), rng.normal(size=(20, 3)) + 8])
    y = np.array(["no"] * 20 + ["yes"] * 20, dtype=object)
    model = NearestClustersClassifier(random_state=0).fit(X, y)
    far = rng.normal(size=(5, 3)) - 20
    model.extend(far, ["certainly not"] * 5)
    assert set(model.predict(far)) == {"certainly not"}
