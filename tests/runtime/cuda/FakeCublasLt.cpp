// The cuBLASLt behind FakeCuda: column-major matrices and plain sums, scales of blocks laid out as
// cuBLASLt documents them.
#include "tests/runtime/cuda/FakeTables.h"
#include "tests/runtime/cuda/Products.h"

#include <algorithm>

namespace nano::test {
namespace {

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t leading, stride = 0;
  int32_t batch = 1;
};
struct Operation {
  cublasOperation_t transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N;
  const float *scaleA = nullptr, *scaleB = nullptr;
  cublasLtMatmulMatrixScale_t modeA = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                              modeB = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};

/// The scale of element x of k of row `row`, of an operand with so many rows.
float scaleAt(const float *scales, cublasLtMatmulMatrixScale_t mode, uint64_t rows, uint64_t k,
              uint64_t row, uint64_t x) {
  auto padded = [](uint64_t count) { return (count + 3) / 4 * 4; };
  if (!scales)
    return 1;
  if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F)
    return scales[x / 128 * padded(rows) + row];
  if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F)
    return scales[row / 128 * padded((k + 127) / 128) + x / 128];
  return *scales;
}

cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void *alpha,
                      const void *a, cublasLtMatrixLayout_t aLayout, const void *b,
                      cublasLtMatrixLayout_t bLayout, const void *beta, const void *c,
                      cublasLtMatrixLayout_t cLayout, void *d, cublasLtMatrixLayout_t dLayout,
                      const cublasLtMatmulAlgo_t *algorithm, void *, size_t, cudaStream_t stream) {
  const Operation op = *as<Operation>(operation);
  const Layout la = *as<Layout>(aLayout), lb = *as<Layout>(bLayout), lc = *as<Layout>(cLayout),
               ld = *as<Layout>(dLayout);
  const float factor = *static_cast<const float *>(alpha), more = *static_cast<const float *>(beta);
  auto number = int(algorithm->data[0] + 100 * algorithm->data[1]);
  auto *handle = reinterpret_cast<CUstream>(stream);
  if (call("product " + std::to_string(ld.rows) + "x" + std::to_string(ld.columns) + on(handle)) !=
      CUDA_SUCCESS)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  submit(handle, [=] {
    fake->algorithms.push_back(number);
    auto at = [](const Layout &layout, uint64_t row, uint64_t column, int64_t batch) {
      return int64_t(column) * layout.leading + int64_t(row) + batch * layout.stride;
    };
    uint64_t k = op.transposeA == CUBLAS_OP_N ? la.columns : la.rows;
    for (int64_t batch = 0; batch < ld.batch; ++batch)
      for (uint64_t i = 0; i < ld.rows; ++i)
        for (uint64_t j = 0; j < ld.columns; ++j) {
          float sum = 0;
          for (uint64_t x = 0; x < k; ++x)
            sum +=
                scaleAt(op.scaleA, op.modeA, ld.rows, k, i, x) *
                scaleAt(op.scaleB, op.modeB, ld.columns, k, j, x) *
                valueAt(a, la.type,
                        op.transposeA == CUBLAS_OP_N ? at(la, i, x, batch) : at(la, x, i, batch)) *
                valueAt(b, lb.type,
                        op.transposeB == CUBLAS_OP_N ? at(lb, x, j, batch) : at(lb, j, x, batch));
          sum *= factor;
          if (more != 0)
            sum += more * valueAt(c, lc.type, at(lc, i, j, batch));
          setValue(d, ld.type, at(ld, i, j, batch), sum);
        }
  });
  return CUBLAS_STATUS_SUCCESS;
}

/// Scales of blocks: none of 128×128 on both sides, none beside one number, k along the rows of
/// both operands.
bool isKnown(const Operation &op) {
  const auto number = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
             square = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  if (op.modeA == number && op.modeB == number)
    return true;
  return op.modeA != number && op.modeB != number && (op.modeA != square || op.modeB != square) &&
         op.transposeA == CUBLAS_OP_T && op.transposeB == CUBLAS_OP_N;
}

cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                         cublasLtMatmulPreference_t, int most,
                         cublasLtMatmulHeuristicResult_t results[], int *count) {
  bool hasNone = as<Layout>(a)->type == fake->unsupported || !isKnown(*as<Operation>(op));
  *count = hasNone ? 0 : std::min(most, fake->candidates);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = uint64_t(i);
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

template <typename T, typename Handle> cublasStatus_t dispose(Handle handle) {
  delete as<T>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cuda::CublasLtApi cublasLtTable() {
  cuda::CublasLtApi api;
  api.cublasLtGetVersion = []() -> size_t { return fake->cublasLtVersion; };
  api.cublasLtGetStatusString = [](cublasStatus_t) { return "a test's status"; };
  api.cublasLtCreate = [](cublasLtHandle_t *) { return CUBLAS_STATUS_SUCCESS; };
  api.cublasLtDestroy = [](cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; };
  api.cublasLtMatmulDescCreate = [](cublasLtMatmulDesc_t *operation, cublasComputeType_t compute,
                                    cudaDataType_t scale) {
    *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation);
    bool isTrueF32 = compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F;
    return isTrueF32 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  };
  api.cublasLtMatmulDescDestroy = dispose<Operation, cublasLtMatmulDesc_t>;
  api.cublasLtMatmulDescSetAttribute = [](cublasLtMatmulDesc_t operation,
                                          cublasLtMatmulDescAttributes_t attribute,
                                          const void *value, size_t) {
    auto *op = as<Operation>(operation);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
      op->transposeA = *static_cast<const cublasOperation_t *>(value);
    else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
      op->transposeB = *static_cast<const cublasOperation_t *>(value);
    else if (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER)
      op->scaleA = *static_cast<const float *const *>(value);
    else if (attribute == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER)
      op->scaleB = *static_cast<const float *const *>(value);
    else if (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_MODE)
      op->modeA = *static_cast<const cublasLtMatmulMatrixScale_t *>(value);
    else if (attribute == CUBLASLT_MATMUL_DESC_B_SCALE_MODE)
      op->modeB = *static_cast<const cublasLtMatmulMatrixScale_t *>(value);
    else if (attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM)
      fake->fastProducts += *static_cast<const int8_t *>(value);
    else
      return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatrixLayoutCreate = [](cublasLtMatrixLayout_t *layout, cudaDataType type,
                                      uint64_t rows, uint64_t columns, int64_t leading) {
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatrixLayoutDestroy = dispose<Layout, cublasLtMatrixLayout_t>;
  api.cublasLtMatrixLayoutSetAttribute = [](cublasLtMatrixLayout_t layout,
                                            cublasLtMatrixLayoutAttribute_t attribute,
                                            const void *value, size_t) {
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
      as<Layout>(layout)->batch = *static_cast<const int32_t *>(value);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
      as<Layout>(layout)->stride = *static_cast<const int64_t *>(value);
    else
      return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatmulPreferenceCreate = [](cublasLtMatmulPreference_t *preference) {
    *preference = nullptr;
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatmulPreferenceDestroy = [](cublasLtMatmulPreference_t) {
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t,
                                                cublasLtMatmulPreferenceAttributes_t, const void *,
                                                size_t) { return CUBLAS_STATUS_SUCCESS; };
  api.cublasLtMatmulAlgoGetHeuristic = heuristic;
  api.cublasLtMatmulAlgoCheck = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                   cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                   cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *algorithm,
                                   cublasLtMatmulHeuristicResult_t *result) {
    result->workspaceSize = 0;
    const uint64_t option = algorithm->data[1];
    return algorithm->data[0] < uint64_t(fake->candidates) && (!option || option == fake->option)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_NOT_SUPPORTED;
  };
  api.cublasLtMatmulAlgoConfigSetAttribute = [](cublasLtMatmulAlgo_t *algorithm,
                                                cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                const void *value, size_t) {
    if (attribute != CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    algorithm->data[1] = *static_cast<const uint32_t *>(value);
    return CUBLAS_STATUS_SUCCESS;
  };
  // All have tiles and clusters of their own.
  api.cublasLtMatmulAlgoConfigGetAttribute = [](const cublasLtMatmulAlgo_t *algorithm,
                                                cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                void *value, size_t, size_t *) {
    if (attribute != CUBLASLT_ALGO_CONFIG_TILE_ID)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    *static_cast<uint32_t *>(value) = uint32_t(algorithm->data[0] + 100 * algorithm->data[1]);
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatmul = matmul;
  return api;
}

} // namespace

const cuda::CublasLtApi *fakeCublasLt() {
  static const cuda::CublasLtApi inner = cublasLtTable();
  static const cuda::CublasLtApi locked = [] {
    cuda::CublasLtApi api;
    NANO_CUBLASLT_FUNCTIONS(FAKE_LOCKED)
    return api;
  }();
  return &locked;
}

} // namespace nano::test
