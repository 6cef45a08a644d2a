// Products as the plan's words describe them, element by element.
#include "tests/runtime/cuda/Products.h"
#include "runtime/NumberFormats.h"

#include <algorithm>
#include <cstring>

namespace nano::test {

using namespace plan;

namespace {

template <typename T> T elementOf(const void *data, int64_t index) {
  T element;
  std::memcpy(&element, static_cast<const T *>(data) + index, sizeof element);
  return element;
}

DType typeOf(cudaDataType type) {
  return type == CUDA_R_32F       ? DType::F32
         : type == CUDA_R_16BF    ? DType::BF16
         : type == CUDA_R_8F_E4M3 ? DType::F8E4M3FN
                                  : DType::F8E5M2;
}

} // namespace

float valueAt(const void *data, DType type, int64_t index) {
  switch (type) {
  case DType::F32:
    return elementOf<float>(data, index);
  case DType::BF16:
    return fromBf16(elementOf<uint16_t>(data, index));
  case DType::F8E4M3FN:
    return fromE4m3(elementOf<uint8_t>(data, index));
  case DType::F8E5M2:
    return fromE5m2(elementOf<uint8_t>(data, index));
  case DType::I32:
  case DType::U16:
    break;
  }
  return 0;
}

float valueAt(const void *data, cudaDataType type, int64_t index) {
  return valueAt(data, typeOf(type), index);
}

void setValue(void *data, DType type, int64_t index, float value) {
  if (type == DType::F32) {
    std::memcpy(static_cast<float *>(data) + index, &value, sizeof value);
    return;
  }
  uint16_t bits = toBf16(value);
  std::memcpy(static_cast<uint16_t *>(data) + index, &bits, sizeof bits);
}

void setValue(void *data, cudaDataType type, int64_t index, float value) {
  setValue(data, typeOf(type), index, value);
}

std::vector<ProductCase> productCases() {
  plan::Matmul plain;
  plain.m = 48, plain.n = 32, plain.k = 64;
  auto packed = [](plan::Matmul command) {
    command.lda = command.transposeA ? command.m : command.k;
    command.ldb = command.transposeB ? command.k : command.n;
    command.ldc = command.ldd = command.n;
    return command;
  };
  std::vector<ProductCase> cases;
  static constexpr const char *names[2][3][4] = {
      {{"f32", "f32_tB", "f32_tA", "f32_tA_tB"}, {}, {}},
      {{"bf16_f32", "bf16_f32_tB", "bf16_f32_tA", "bf16_f32_tA_tB"},
       {"bf16", "bf16_tB", "bf16_tA", "bf16_tA_tB"},
       {}}};
  for (auto [input, output] : {std::pair(0, 0), std::pair(1, 0), std::pair(1, 1)})
    for (int transposes = 0; transposes < 4; ++transposes) {
      plan::Matmul command = plain;
      command.aType = command.bType = input ? DType::BF16 : DType::F32;
      command.cType = output ? DType::BF16 : DType::F32;
      command.transposeA = (transposes & 2) != 0;
      command.transposeB = (transposes & 1) != 0;
      cases.push_back({names[input][output][transposes], packed(command)});
    }
  plan::Matmul bf16 = cases.back().command; // both transposed
  plan::Matmul gaps = bf16;
  gaps.lda += 16, gaps.ldb += 8, gaps.ldc += 24;
  cases.push_back({"gaps", gaps});

  plan::Matmul batch = plain;
  batch.aType = batch.bType = batch.cType = DType::BF16;
  batch.batch = 3;
  batch.transposeB = true;
  batch = packed(batch);
  batch.strideA = batch.m * batch.lda + 64;
  batch.strideB = batch.n * batch.ldb;
  batch.strideC = batch.m * batch.ldc;
  cases.push_back({"batch", batch});
  plan::Matmul shared = batch;
  shared.strideB = 0; // one B for all
  cases.push_back({"batch_one_b", shared});

  plan::Matmul factors = bf16;
  factors.transposeA = factors.transposeB = false;
  factors = packed(factors);
  factors.alpha = 0.5, factors.beta = -1.5;
  factors.ldd = factors.n + 16;
  cases.push_back({"added", factors});
  plan::Matmul inPlace = factors;
  inPlace.ldd = inPlace.ldc;
  inPlace.beta = 1;
  inPlace.cType = DType::F32;
  cases.push_back({"in_place", inPlace});
  plan::Matmul batchAdded = batch;
  batchAdded.beta = 0.25;
  batchAdded.strideD = batchAdded.strideC + 32;
  cases.push_back({"batch_added", batchAdded});

  plan::Matmul odd = plain;
  odd.m = 5, odd.n = 7, odd.k = 3;
  cases.push_back({"odd_f32", packed(odd)});
  odd.aType = odd.bType = odd.cType = DType::BF16;
  cases.push_back({"odd_bf16", packed(odd)});

  plan::Matmul f8 = plain;
  f8.aType = f8.bType = DType::F8E4M3FN;
  f8.cType = DType::BF16;
  f8.transposeB = true;
  cases.push_back({"f8", packed(f8)});
  f8.scales.emplace();
  cases.push_back({"f8_scaled", packed(f8)});
  f8.cType = DType::F32;
  f8.bType = DType::F8E5M2;
  cases.push_back({"f8_mixed_f32", packed(f8)});
  return cases;
}

Plan productPlan(const std::vector<ProductCase> &cases) {
  Plan plan;
  plan.model = "products";
  plan.target = "cuda";
  plan.worlds = {1};
  auto buffer = [&](const std::string &name, DType type, int64_t elements) {
    Buffer made = {name, plan.arenaBytes, uint64_t(elements) * sizeOf(type), type, {elements}, {}};
    plan.arenaBytes += (made.bytes + 255) / 256 * 256;
    plan.buffers.push_back(made);
    return Ref{uint32_t(plan.buffers.size() - 1), 0};
  };
  for (const ProductCase &each : cases) {
    plan::Matmul command = each.command;
    std::string name = each.name;
    auto matrix = [&](const char *suffix, DType type, int64_t rows, int64_t leading,
                      int64_t stride) {
      return buffer(name + suffix, type, rows * leading + (command.batch - 1) * stride);
    };
    // With the gaps behind the last row or block.
    auto scale = [&](const char *suffix, int64_t outer, int64_t rows,
                     const std::array<int64_t, 2> &strides) {
      int64_t count = command.scales->block == 0 ? 1
                      : rows == 1                ? command.k / 128 * strides[1]
                                                 : outer * strides[0];
      return buffer(name + suffix, DType::F32, count);
    };
    command.a = matrix(".a", command.aType, command.transposeA ? command.k : command.m, command.lda,
                       command.strideA);
    command.b = matrix(".b", command.bType, command.transposeB ? command.n : command.k, command.ldb,
                       command.strideB);
    command.c = matrix(".c", command.cType, command.m, command.ldc, command.strideC);
    command.c.written = true;
    command.c.read = false;
    if (command.beta == 1)
      command.d = {command.c.buffer, 0};
    else if (command.beta != 0)
      command.d = matrix(".d", command.cType, command.m, command.ldd, command.strideD);
    if (command.scales) {
      command.scales->a = scale(".scale_a", command.m / command.scales->rowsA,
                                command.scales->rowsA, command.scales->stridesA);
      command.scales->b = scale(".scale_b", command.n / command.scales->rowsB,
                                command.scales->rowsB, command.scales->stridesB);
    }
    Program program = {name, {{command, 0, name, {"products.cpp", 7}}}, 1, 0};
    plan.programs.push_back(program);
  }
  return plan;
}

std::vector<std::byte> operandBytes(const Buffer &buffer, uint64_t seed) {
  std::vector<std::byte> bytes(buffer.bytes);
  uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  auto count = int64_t(buffer.bytes / sizeOf(buffer.type));
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    int eighths = int(state >> 33) % 9 - 4;                           // -4/8 … 4/8
    static constexpr uint8_t e4m3[] = {0x00, 0x20, 0x28, 0x2C, 0x30}; // 0, 1/8, 2/8, 3/8, 4/8
    static constexpr uint8_t e5m2[] = {0x00, 0x30, 0x34, 0x36, 0x38};
    if (buffer.type == DType::F8E4M3FN || buffer.type == DType::F8E5M2) {
      uint8_t magnitude = (buffer.type == DType::F8E4M3FN ? e4m3 : e5m2)[std::abs(eighths)];
      bytes[size_t(i)] = std::byte(magnitude | (eighths < 0 ? 0x80 : 0));
    } else {
      setValue(bytes.data(), buffer.type, i, float(eighths) / 8);
    }
  }
  return bytes;
}

void referenceProduct(const plan::Matmul &command, const void *a, const void *b, void *c,
                      const void *d, const float *scaleA, const float *scaleB) {
  float factor = float(command.alpha) * (scaleA ? *scaleA : 1) * (scaleB ? *scaleB : 1);
  for (int64_t batch = 0; batch < command.batch; ++batch)
    for (int64_t i = 0; i < command.m; ++i)
      for (int64_t j = 0; j < command.n; ++j) {
        float sum = 0;
        for (int64_t x = 0; x < command.k; ++x) {
          int64_t atA = command.transposeA ? x * command.lda + i : i * command.lda + x;
          int64_t atB = command.transposeB ? j * command.ldb + x : x * command.ldb + j;
          sum += valueAt(a, command.aType, atA + batch * command.strideA) *
                 valueAt(b, command.bType, atB + batch * command.strideB);
        }
        sum *= factor;
        if (command.beta != 0)
          sum += float(command.beta) *
                 valueAt(d, command.cType, i * command.ldd + j + batch * command.strideD);
        setValue(c, command.cType, i * command.ldc + j + batch * command.strideC, sum);
      }
}

} // namespace nano::test
