// cuBLASLt behind the plan's Matmul matmul.
#include "runtime/cuda/Matmul.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

namespace nano::cuda {
namespace {

using plan::DType;

/// The first version of cuBLASLt whose f8 products have scales for blocks of their operands.
constexpr size_t firstWithBlockScales = 120900;

cudaDataType typeOf(DType type) {
  switch (type) {
  case DType::F32:
    return CUDA_R_32F;
  case DType::BF16:
    return CUDA_R_16BF;
  case DType::F8E4M3FN:
    return CUDA_R_8F_E4M3;
  case DType::F8E5M2:
    return CUDA_R_8F_E5M2;
  case DType::I32:
    return CUDA_R_32I;
  case DType::U16:
    return CUDA_R_16U;
  }
  return CUDA_R_32F;
}

/// The largest power of two up to 256 that divides an operand's address and, in a batch, the
/// distance of its matrices.
uint32_t alignmentOf(CUdeviceptr address, const plan::Matmul &matmul, int64_t stride, DType type) {
  uint64_t bits = address | 256;
  if (matmul.batch > 1)
    bits |= uint64_t(stride) * plan::sizeOf(type);
  return uint32_t(bits & ~(bits - 1));
}

MatmulAlignments alignmentsOf(const plan::Matmul &matmul, const MatmulOperands &operands) {
  MatmulAlignments all = {alignmentOf(operands.a, matmul, matmul.strideA, matmul.aType),
                          alignmentOf(operands.b, matmul, matmul.strideB, matmul.bType),
                          alignmentOf(operands.c, matmul, matmul.strideC, matmul.cType), 0};
  all.d = matmul.beta != 0 ? alignmentOf(operands.d, matmul, matmul.strideD, matmul.cType) : all.c;
  return all;
}

std::array<uint64_t, 8> wordsOf(const cublasLtMatmulAlgo_t &algorithm) {
  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(std::array<uint64_t, 8>));
  std::array<uint64_t, 8> words;
  std::memcpy(words.data(), &algorithm, sizeof words);
  return words;
}

/// What cuBLASLt calls scales of 128 elements along k and `rows` across.
cublasLtMatmulMatrixScale_t scaleModeOf(int64_t rows) {
  return rows == 1 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                   : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
}

/// The strides that cuBLASLt takes the scales to have: those of 1×128 elements have neighbours
/// across k next to each other, those of 128×128 along k; the other distance is a multiple of 4.
std::array<int64_t, 2> scaleStridesOf(int64_t outer, int64_t blocks, int64_t rows) {
  auto padded = [](int64_t count) { return (count + 3) / 4 * 4; };
  if (rows == 1)
    return {1, padded(outer)};
  return {padded(blocks), 1};
}

/// Whether the scales of blocks lie as cuBLASLt reads them; it is not told how they lie.
Status checkScales(const plan::Matmul &matmul, const MatmulOperands &operands) {
  auto check = [&](const char *name, CUdeviceptr address, int64_t size, int64_t rows,
                   const std::array<int64_t, 2> &strides) -> Status {
    int64_t outer = size / rows, blocks = matmul.k / matmul.scales->block;
    std::array<int64_t, 2> wanted = scaleStridesOf(outer, blocks, rows);
    bool fits = (outer == 1 || strides[0] == wanted[0]) &&
                (blocks == 1 || strides[1] == wanted[1]) && address % 16 == 0;
    auto text = [](const std::array<int64_t, 2> &list) {
      return "[" + std::to_string(list[0]) + "," + std::to_string(list[1]) + "]";
    };
    if (fits)
      return ok();
    return badInput("the " + std::to_string(outer) + "x" + std::to_string(blocks) +
                    " block scales of " + name + " have strides " + text(strides) + " at offset " +
                    std::to_string(address % 16) + " from a multiple of 16 bytes, cuBLASLt reads " +
                    text(wanted) + " at 0; recompile the model with --target cuda");
  };
  if (Status left =
          check("A", operands.scaleA, matmul.m, matmul.scales->rowsA, matmul.scales->stridesA);
      !left)
    return left;
  return check("B", operands.scaleB, matmul.n, matmul.scales->rowsB, matmul.scales->stridesB);
}

/// Whether the tensor cores alone add a product up, as in generated kernels: a forward product,
/// whose sums are rounded to bf16, which the 13 bits that they keep behind the point of the largest
/// number on the way hardly show. What is of gradients is of e5m2, or in f32.
bool addsUpFast(const plan::Matmul &matmul) {
  return matmul.aType == DType::F8E4M3FN && matmul.bType == DType::F8E4M3FN &&
         matmul.cType == DType::BF16 && matmul.scales && !matmul.scales->block;
}

bool isFaster(const Products::Proposal &a, const Products::Proposal &b) {
  return a.seconds < b.seconds;
}

std::string productKey(const plan::Matmul &matmul, const MatmulOperands &operands) {
  auto operand = [](DType type, bool transposed) {
    return std::string(plan::nameOf(type)) + (transposed ? "T" : "");
  };
  auto block = [&](int64_t rows) {
    return std::to_string(rows) + "x" + std::to_string(matmul.scales->block);
  };
  auto list = [](std::initializer_list<int64_t> values) {
    std::string text;
    for (int64_t value : values)
      text += (text.empty() ? "" : ",") + std::to_string(value);
    return text;
  };
  bool adds = matmul.beta != 0;
  std::string text = std::to_string(matmul.m) + "x" + std::to_string(matmul.n) + "x" +
                     std::to_string(matmul.k) + " ";
  if (matmul.batch > 1)
    text += "batch " + std::to_string(matmul.batch) + " stride " +
            list({matmul.strideA, matmul.strideB, matmul.strideC, adds ? matmul.strideD : 0}) + " ";
  text += operand(matmul.aType, matmul.transposeA) + "*" +
          operand(matmul.bType, matmul.transposeB) + "->" + plan::nameOf(matmul.cType) +
          (operands.scaleA ? " scaled" : "") + (addsUpFast(matmul) ? " fast" : "") +
          (matmul.scales && matmul.scales->block
               ? " by blocks of " + block(matmul.scales->rowsA) + "," + block(matmul.scales->rowsB)
               : "") +
          (adds ? operands.d == operands.c ? " added in place" : " added" : "") + " ld " +
          list({matmul.lda, matmul.ldb, matmul.ldc});
  if (adds)
    text += "," + std::to_string(matmul.ldd);
  MatmulAlignments align = alignmentsOf(matmul, operands);
  text += " align " + list({align.a, align.b, align.c});
  if (adds)
    text += "," + std::to_string(align.d);
  return text;
}

} // namespace

Product::~Product() {
  for (cublasLtMatrixLayout_t layout : {left, right, addend, result})
    if (layout)
      api.cublasLtMatrixLayoutDestroy(layout);
  if (operation)
    api.cublasLtMatmulDescDestroy(operation);
}

cublasStatus_t Product::enqueue(CUdeviceptr workspace, CUstream stream) const {
  auto pointer = [](CUdeviceptr address) { return std::bit_cast<void *>(address); };
  return api.cublasLtMatmul(
      handle, operation, &alpha, pointer(operands.b), left, pointer(operands.a), right, &beta,
      pointer(beta != 0 ? operands.d : operands.c), addend, pointer(operands.c), result, &algorithm,
      pointer(workspace), workspaceBytes, reinterpret_cast<cudaStream_t>(stream));
}

Result<std::unique_ptr<Products>> Products::create(const CublasLtApi &api,
                                                   uint64_t workspaceBytes) {
  std::unique_ptr<Products> products(new Products(api, workspaceBytes));
  if (cublasStatus_t status = api.cublasLtCreate(&products->handle);
      status != CUBLAS_STATUS_SUCCESS)
    return cublasLtError(api, status, "cublasLtCreate");
  return products;
}

Products::~Products() {
  if (handle)
    api.cublasLtDestroy(handle);
}

std::string Products::version() const {
  size_t number = api.cublasLtGetVersion();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

Result<std::unique_ptr<Product>> Products::make(const plan::Matmul &matmul,
                                                const MatmulOperands &operands) {
  Result<std::unique_ptr<Product>> product = open(matmul, operands);
  if (product)
    if (Status chosen = choose(**product); !chosen)
      return chosen.error();
  return product;
}

Result<std::unique_ptr<Product>> Products::open(const plan::Matmul &matmul,
                                                const MatmulOperands &operands) const {
  if (matmul.scales && matmul.scales->block) {
    if (api.cublasLtGetVersion() < firstWithBlockScales)
      return badInput("f8 products with block scales need cuBLASLt 12.9 or later, this is " +
                      version() + "; update it or compile the model with one scale a tensor");
    if (Status fits = checkScales(matmul, operands); !fits)
      return fits.error();
  }
  std::unique_ptr<Product> product(new Product(api));
  product->handle = handle;
  product->operands = operands;
  product->alignments = alignmentsOf(matmul, operands);
  product->alpha = float(matmul.alpha);
  product->beta = float(matmul.beta);
  product->workspaceBytes = workspace;
  product->keyText = productKey(matmul, operands);

  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const char *doing = "";
  auto step = [&](const char *what, cublasStatus_t outcome) {
    if (status == CUBLAS_STATUS_SUCCESS && outcome != CUBLAS_STATUS_SUCCESS) {
      status = outcome;
      doing = what;
    }
  };
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto &value) {
    step("cublasLtMatmulDescSetAttribute",
         api.cublasLtMatmulDescSetAttribute(product->operation, attribute, &value, sizeof value));
  };
  step("cublasLtMatmulDescCreate",
       api.cublasLtMatmulDescCreate(&product->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  if (status != CUBLAS_STATUS_SUCCESS)
    return cublasLtError(api, status, doing);
  // The library's A is the plan's B, and the other way round.
  set(CUBLASLT_MATMUL_DESC_TRANSA, matmul.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, matmul.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (operands.scaleB)
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.scaleB);
  if (operands.scaleA)
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.scaleA);
  if (matmul.scales && matmul.scales->block) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scaleModeOf(matmul.scales->rowsB));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scaleModeOf(matmul.scales->rowsA));
  }

  if (addsUpFast(matmul))
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t(1));

  // A row-major rows×columns matrix, as the column-major columns×rows one that it is too.
  auto layout = [&](cublasLtMatrixLayout_t &made, DType type, int64_t rows, int64_t columns,
                    int64_t leading, int64_t stride) {
    step("cublasLtMatrixLayoutCreate",
         api.cublasLtMatrixLayoutCreate(&made, typeOf(type), uint64_t(columns), uint64_t(rows),
                                        leading));
    if (status != CUBLAS_STATUS_SUCCESS || matmul.batch == 1)
      return;
    auto count = int32_t(matmul.batch);
    step("cublasLtMatrixLayoutSetAttribute",
         api.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof count));
    step("cublasLtMatrixLayoutSetAttribute",
         api.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &stride, sizeof stride));
  };
  bool tA = matmul.transposeA, tB = matmul.transposeB, adds = matmul.beta != 0;
  layout(product->left, matmul.bType, tB ? matmul.n : matmul.k, tB ? matmul.k : matmul.n,
         matmul.ldb, matmul.strideB);
  layout(product->right, matmul.aType, tA ? matmul.k : matmul.m, tA ? matmul.m : matmul.k,
         matmul.lda, matmul.strideA);
  layout(product->addend, matmul.cType, matmul.m, matmul.n, adds ? matmul.ldd : matmul.ldc,
         adds ? matmul.strideD : matmul.strideC);
  layout(product->result, matmul.cType, matmul.m, matmul.n, matmul.ldc, matmul.strideC);
  if (status != CUBLAS_STATUS_SUCCESS)
    return cublasLtError(api, status, doing);

  if (plan::isFloat8(matmul.aType) && (tA || !tB))
    product->advice = "; f8 products need A as m×k and B as n×k, both with k along rows";
  else if (matmul.scales && matmul.scales->block)
    product->advice = "; block scales need a GPU of architecture sm_90, else compile the model "
                      "with one scale a tensor";
  return product;
}

Result<std::vector<cublasLtMatmulHeuristicResult_t>> Products::candidates(const Product &product,
                                                                          int most) const {
  cublasLtMatmulPreference_t preference = nullptr;
  cublasStatus_t status = api.cublasLtMatmulPreferenceCreate(&preference);
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto &value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status =
          api.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, size_t(workspace));
  // Partial sums go through the workspace and are added in a fixed order, or there are none.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const MatmulAlignments &align = product.alignments;
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align.b);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align.a);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align.d);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align.c);
  std::vector<cublasLtMatmulHeuristicResult_t> found(size_t(most),
                                                     cublasLtMatmulHeuristicResult_t{});
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS)
    status = api.cublasLtMatmulAlgoGetHeuristic(handle, product.operation, product.left,
                                                product.right, product.addend, product.result,
                                                preference, most, found.data(), &count);
  if (preference)
    api.cublasLtMatmulPreferenceDestroy(preference);
  found.resize(status == CUBLAS_STATUS_SUCCESS ? size_t(count) : 0);
  std::erase_if(found, [](const auto &each) { return each.state != CUBLAS_STATUS_SUCCESS; });
  if (!found.empty())
    return found;
  return badInput("cuBLASLt " + version() + " has no algorithm for the product " + product.key() +
                  (status == CUBLAS_STATUS_SUCCESS
                       ? std::string()
                       : std::string(" (") + api.cublasLtGetStatusString(status) + ")"));
}

bool Products::canRun(const Product &product, const cublasLtMatmulAlgo_t &algorithm) const {
  cublasLtMatmulHeuristicResult_t checked = {};
  cublasStatus_t status =
      api.cublasLtMatmulAlgoCheck(handle, product.operation, product.left, product.right,
                                  product.addend, product.result, &algorithm, &checked);
  return status == CUBLAS_STATUS_SUCCESS && checked.workspaceSize <= workspace;
}

uint64_t Products::shapeOf(const cublasLtMatmulAlgo_t &algorithm) const {
  uint32_t tile = 0;
  uint16_t cluster = 0;
  size_t written = 0;
  (void)api.cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile,
                                                 sizeof tile, &written);
  (void)api.cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
                                                 &cluster, sizeof cluster, &written);
  return uint64_t(tile) << 16 | cluster;
}

bool Products::takeTuned(Product &product) const {
  const std::optional<TunedChoice> choice = tuning ? tuning->find(product.key()) : std::nullopt;
  if (!choice)
    return false;
  std::memcpy(&product.algorithm, choice->algorithm.data(), sizeof product.algorithm);
  return canRun(product, product.algorithm);
}

Status Products::choose(Product &product) {
  {
    const std::lock_guard<std::mutex> lock(choosing);
    if (auto known = algorithms.find(product.key()); known != algorithms.end()) {
      product.algorithm = known->second;
      return ok();
    }
  }
  const bool isTuned = takeTuned(product);
  if (!isTuned) {
    Result<std::vector<cublasLtMatmulHeuristicResult_t>> found = candidates(product, 1);
    if (!found)
      return Error{found.error().kind, found.error().message + product.advice};
    product.algorithm = found->front().algo;
  }
  const std::lock_guard<std::mutex> lock(choosing);
  if (algorithms.emplace(product.key(), product.algorithm).second && isTuned)
    ++fromTuning;
  return ok();
}

Result<std::vector<Products::Proposal>> Products::propose(Product &product,
                                                          const Measure &measure) const {
  Result<std::vector<cublasLtMatmulHeuristicResult_t>> found = candidates(product, 32);
  if (!found)
    return found.error();
  std::vector<Proposal> ran;
  for (size_t i = 0; i < found->size(); ++i) {
    Proposal proposal = {int(i), (*found)[i].algo, 0, shapeOf((*found)[i].algo)};
    give(product, proposal);
    Result<double> seconds = measure(product);
    if (!seconds)
      continue;
    proposal.seconds = *seconds;
    ran.push_back(proposal);
  }
  if (ran.empty())
    return failed("no algorithm of cuBLASLt ran for the product " + product.key());
  std::stable_sort(ran.begin(), ran.end(), isFaster);
  give(product, ran.front());
  return ran;
}

void Products::vary(Product &product, const Measure &measure, size_t most,
                    std::vector<Proposal> &proposals) const {
  // What an option means differs between families of kernels; of most it says in which order tiles
  // come, and how two warpgroups share one.
  constexpr uint32_t customOptions = 32;
  constexpr std::array<uint16_t, 7> clusters = {
      CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1, CUBLASLT_CLUSTER_SHAPE_1x2x1,
      CUBLASLT_CLUSTER_SHAPE_2x2x1, CUBLASLT_CLUSTER_SHAPE_4x1x1, CUBLASLT_CLUSTER_SHAPE_1x4x1,
      CUBLASLT_CLUSTER_SHAPE_4x2x1};
  std::set<std::array<uint64_t, 8>> known;
  int next = 0;
  for (const Proposal &each : proposals) {
    known.insert(wordsOf(each.algorithm));
    next = std::max(next, each.number + 1);
  }
  std::vector<Proposal> ran;
  size_t tried = 0;
  auto attempt = [&](const Proposal &base, cublasLtMatmulAlgoConfigAttributes_t attribute,
                     const auto &value) {
    cublasLtMatmulAlgo_t algorithm = base.algorithm;
    if (tried >= most ||
        api.cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value, sizeof value) !=
            CUBLAS_STATUS_SUCCESS ||
        !known.insert(wordsOf(algorithm)).second || !canRun(product, algorithm))
      return;
    ++tried;
    Proposal proposal = {next, algorithm, 0, shapeOf(algorithm)};
    give(product, proposal);
    if (Result<double> seconds = measure(product)) {
      proposal.seconds = *seconds;
      ran.push_back(proposal);
      ++next;
    }
  };
  for (const Proposal &each : proposals) {
    for (uint32_t option = 0; option < customOptions; ++option)
      attempt(each, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, option);
    for (uint16_t cluster : clusters)
      attempt(each, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster);
  }
  proposals.insert(proposals.end(), ran.begin(), ran.end());
  std::stable_sort(proposals.begin(), proposals.end(), isFaster);
  give(product, proposals.front());
}

TunedChoice Products::take(Product &product, const Proposal &proposal) {
  give(product, proposal);
  algorithms[product.key()] = proposal.algorithm;
  ++fromTuning;
  TunedChoice choice;
  choice.algorithm = wordsOf(proposal.algorithm);
  choice.chosen = proposal.number;
  choice.cost.seconds = proposal.seconds;
  return choice;
}

} // namespace nano::cuda
