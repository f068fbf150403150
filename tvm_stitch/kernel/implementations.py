"""The ways to compute stages in one kernel. A new one is a room with an Implementation in it, and a
line. Of equally fast kernels the first is taken.
"""

from __future__ import annotations

from tvm_stitch.kernel.library_product.build import CUBLASLT_PRODUCT
from tvm_stitch.kernel.skinny_matmul.build import SKINNY_MATMUL
from tvm_stitch.kernel.stitched import STITCHED
from tvm_stitch.kernel.tensor_core.build import TENSOR_CORE_PRODUCT

IMPLEMENTATIONS = (STITCHED, SKINNY_MATMUL, TENSOR_CORE_PRODUCT, CUBLASLT_PRODUCT)
PRODUCTS = tuple(each for each in IMPLEMENTATIONS if each.of_products)
