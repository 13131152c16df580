"""Starts the Python workers of Spark after the imports, which they then share.

They sum with the kernel in numpy: each would load the compiled one for seconds. And
partitions of the tests are as small as pieces are large, so these are cut smaller.
"""

import gc

import corrdp.estimators
import corrdp.leakage
import corrdp.queries  # noqa: F401
from corrdp.engines import _spark
from corrdp.training.kernels import _plain
from corrdp.training.rows import _questions

if __name__ == "__main__":
    from pyspark.daemon import manager

    _questions._kernel = _plain
    _spark._CHUNK_BYTES = 10_000
    gc.freeze()  # workers collect garbage after every task
    manager()
