// What products, moves and collectives keep to.
#include "runtime/plan/Operands.h"
#include "runtime/plan/Validator.h"

#include <cmath>

namespace nano::plan {

/// What ranks may combine.
static bool isFloat(DType type) { return type == DType::F32 || type == DType::BF16; }

/// One that is not even taken is not absurd either.
static bool isStride(int64_t stride) { return uint64_t(stride) <= mostArenaBytes; }

void Validator::check(const Matmul &matmul) const {
  require(matmul.m > 0 && matmul.n > 0 && matmul.k > 0 && matmul.batch > 0,
          "a size is not positive");
  require(matmul.batch <= INT32_MAX, "the batch has more than 2147483647 matrices");
  require(!isInteger(matmul.aType) && !isInteger(matmul.bType), "an operand is of integers");
  require(matmul.cType == DType::F32 || matmul.cType == DType::BF16,
          "the result is neither f32 nor bf16");
  require(std::isfinite(matmul.alpha) && std::isfinite(matmul.beta),
          "a factor is not a finite number");
  auto operand = [&](const char *what, const Ref &ref, DType type, uint64_t rows, uint64_t columns,
                     int64_t leading, int64_t stride) {
    if (leading < 0 || uint64_t(leading) < columns)
      fail(std::string(what) + ": the leading dimension is smaller than a row");
    if (stride < 0)
      fail(std::string(what) + ": the batch stride is negative");
    if (ref.offset % sizeOf(type))
      fail(std::string(what) + ": the offset is not a multiple of the element size");
    inside(ref, matrixBytes(type, rows, columns, leading, matmul.batch, stride), what);
    if (!isStride(leading) || !isStride(stride))
      fail(std::string(what) + ": rows or matrices are more than 2^46 elements apart");
  };
  uint64_t m = matmul.m, n = matmul.n, k = matmul.k;
  operand("A", matmul.a, matmul.aType, matmul.transposeA ? k : m, matmul.transposeA ? m : k,
          matmul.lda, matmul.strideA);
  operand("B", matmul.b, matmul.bType, matmul.transposeB ? n : k, matmul.transposeB ? k : n,
          matmul.ldb, matmul.strideB);
  operand("C", matmul.c, matmul.cType, m, n, matmul.ldc, matmul.strideC);
  require(matmul.batch == 1 || matmul.strideC > 0, "C: all matrices of the batch are the same");
  if (matmul.beta != 0)
    operand("D", matmul.d, matmul.cType, m, n, matmul.ldd, matmul.strideD);
  if (matmul.scales)
    scales(matmul);
}

void Validator::scales(const Matmul &matmul) const {
  const MatmulScales &scales = *matmul.scales;
  require(isFloat8(matmul.aType) && isFloat8(matmul.bType), "it has scales, but no f8 operands");
  require(matmul.batch == 1, "it has scales and a batch");
  int64_t block = scales.block;
  require(block == 0 || block == 128, "its scales are for blocks of another size than 128");
  require(block == 0 || matmul.k % block == 0, "k is not a multiple of the blocks' size");
  auto scale = [&](const char *what, const Ref &ref, int64_t outer, int64_t rows,
                   const std::array<int64_t, 2> &strides) {
    uint64_t end = 1; // behind the last scale, in elements
    if (block) {
      if ((rows != 1 && rows != block) || outer % rows)
        fail(std::string(what) + ": the blocks' size does not divide the operand's");
      if (strides[0] < 0 || strides[1] < 0)
        fail(std::string(what) + ": a stride is negative");
      end = plus(end, times(uint64_t(outer / rows - 1), uint64_t(strides[0])));
      end = plus(end, times(uint64_t(matmul.k / block - 1), uint64_t(strides[1])));
    }
    if (ref.offset % sizeof(float))
      fail(std::string(what) + ": the offset is not a multiple of the element size");
    inside(ref, times(end, sizeof(float)), what);
    if (block && !(isStride(strides[0]) && isStride(strides[1])))
      fail(std::string(what) + ": scales are more than 2^46 elements apart");
  };
  scale("the scale of A", scales.a, matmul.m, scales.rowsA, scales.stridesA);
  scale("the scale of B", scales.b, matmul.n, scales.rowsB, scales.stridesB);
}

void Validator::elements(const Ref &ref, DType type, int64_t count) const {
  require(count >= 0, "a number of elements is negative");
  require(ref.offset % sizeOf(type) == 0, "an offset is not a multiple of the element size");
  inside(ref, times(uint64_t(count), sizeOf(type)), "an operand");
}

void Validator::check(const AllReduce &reduce) const {
  require(isFloat(reduce.type), "the element type is neither f32 nor bf16");
  for (const AllReduce::Part &part : reduce.parts)
    elements(part.buffer, reduce.type, part.count);
}

void Validator::check(const Fill &fill) const { elements(fill.to, fill.type, fill.count); }

void Validator::check(const Copy &copy) const {
  require(copy.count >= 0, "a number of elements is negative");
  const uint64_t bytes = times(uint64_t(copy.count), sizeOf(copy.type));
  for (const Ref *ref : {&copy.from, &copy.to}) {
    require(ref->offset % sizeOf(copy.type) == 0,
            "an offset is not a multiple of the element size");
    within(*ref, bytes, "an operand");
  }
  require(!isInHost(plan, plan.buffers[copy.from.buffer]) ||
              !isInHost(plan, plan.buffers[copy.to.buffer]),
          "it goes from the host's memory to itself");
  apart(copy.from, bytes, copy.to, bytes);
}

/// Both lie inside their buffers.
void Validator::apart(const Ref &from, uint64_t fromBytes, const Ref &to, uint64_t toBytes) const {
  auto start = [&](const Ref &ref) { return plan.buffers[ref.buffer].offset + ref.offset; };
  require(start(from) + fromBytes <= start(to) || start(to) + toBytes <= start(from),
          "source and destination overlap");
}

void Validator::exchange(const Exchange &exchange, bool gathers) const {
  require(!exchange.moves.empty(), "it has no operands");
  require(isFloat(exchange.type), "the element type is neither f32 nor bf16");
  for (const auto &[from, to, count] : exchange.moves) {
    require(count >= 0, "a number of elements is negative");
    for (const Ref *ref : {&from, &to})
      require(ref->offset % sizeOf(exchange.type) == 0,
              "an offset is not a multiple of the element size");
    const uint64_t part = times(uint64_t(count), sizeOf(exchange.type));
    for (int64_t world : plan.worlds) {
      const uint64_t whole = times(part, uint64_t(membersOf(exchange.ranks, world, plan.group)));
      inside(from, gathers ? part : whole, "a source");
      inside(to, gathers ? whole : part, "a target");
      apart(from, gathers ? part : whole, to, gathers ? whole : part);
    }
  }
}

} // namespace nano::plan
