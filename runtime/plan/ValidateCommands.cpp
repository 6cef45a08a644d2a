// What products, moves and collectives keep to.
#include "runtime/plan/Validator.h"

#include <cmath>

namespace nano::plan {

/// What ranks may combine.
static bool isFloat(DType type) { return type == DType::F32 || type == DType::BF16; }

/// One that is not even taken is not absurd either.
static bool isStride(int64_t stride) { return uint64_t(stride) <= mostArenaBytes; }

void Validator::matmul(const Command &command) const {
  require(command.m > 0 && command.n > 0 && command.k > 0 && command.batch > 0,
          "a size is not positive");
  require(command.batch <= INT32_MAX, "the batch has more than 2147483647 matrices");
  require(!isInteger(command.aType) && !isInteger(command.bType), "an operand is of integers");
  require(command.cType == DType::F32 || command.cType == DType::BF16,
          "the result is neither f32 nor bf16");
  require(std::isfinite(command.alpha) && std::isfinite(command.beta),
          "a factor is not a finite number");
  auto operand = [&](const char *what, const Ref &ref, DType type, uint64_t rows, uint64_t columns,
                     int64_t leading, int64_t stride) {
    if (leading < 0 || uint64_t(leading) < columns)
      fail(std::string(what) + ": the leading dimension is smaller than a row");
    if (stride < 0)
      fail(std::string(what) + ": the batch stride is negative");
    if (ref.offset % sizeOf(type))
      fail(std::string(what) + ": the offset is not a multiple of the element size");
    uint64_t last = plus(times(uint64_t(command.batch) - 1, uint64_t(stride)),
                         plus(times(rows - 1, uint64_t(leading)), columns));
    inside(ref, times(last, sizeOf(type)), what);
    if (!isStride(leading) || !isStride(stride))
      fail(std::string(what) + ": rows or matrices are more than 2^46 elements apart");
  };
  uint64_t m = command.m, n = command.n, k = command.k;
  operand("A", command.a, command.aType, command.transposeA ? k : m, command.transposeA ? m : k,
          command.lda, command.strideA);
  operand("B", command.b, command.bType, command.transposeB ? n : k, command.transposeB ? k : n,
          command.ldb, command.strideB);
  operand("C", command.c, command.cType, m, n, command.ldc, command.strideC);
  require(command.batch == 1 || command.strideC > 0, "C: all matrices of the batch are the same");
  if (command.beta != 0)
    operand("D", command.d, command.cType, m, n, command.ldd, command.strideD);
  if (command.scaled)
    scales(command);
}

void Validator::scales(const Command &command) const {
  require(isFloat8(command.aType) && isFloat8(command.bType), "it has scales, but no f8 operands");
  require(command.batch == 1, "it has scales and a batch");
  int64_t block = command.scaleBlock;
  require(block == 0 || block == 128, "its scales are for blocks of another size than 128");
  require(block == 0 || command.k % block == 0, "k is not a multiple of the blocks' size");
  auto scale = [&](const char *what, const Ref &ref, int64_t outer, int64_t rows,
                   const std::array<int64_t, 2> &strides) {
    uint64_t end = 1; // behind the last scale, in elements
    if (block) {
      if ((rows != 1 && rows != block) || outer % rows)
        fail(std::string(what) + ": the blocks' size does not divide the operand's");
      if (strides[0] < 0 || strides[1] < 0)
        fail(std::string(what) + ": a stride is negative");
      end = plus(end, times(uint64_t(outer / rows - 1), uint64_t(strides[0])));
      end = plus(end, times(uint64_t(command.k / block - 1), uint64_t(strides[1])));
    }
    if (ref.offset % sizeof(float))
      fail(std::string(what) + ": the offset is not a multiple of the element size");
    inside(ref, times(end, sizeof(float)), what);
    if (block && !(isStride(strides[0]) && isStride(strides[1])))
      fail(std::string(what) + ": scales are more than 2^46 elements apart");
  };
  scale("the scale of A", command.scaleA, command.m, command.scaleRowsA, command.scaleStridesA);
  scale("the scale of B", command.scaleB, command.n, command.scaleRowsB, command.scaleStridesB);
}

void Validator::moves(const Command &command) const {
  bool isCopy = command.kind == Command::Kind::Copy;
  bool isAllReduce = command.kind == Command::Kind::AllReduce;
  require(isAllReduce || command.refs.size() == (isCopy ? 2 : 1), "wrong number of operands");
  require(command.counts.size() == (isAllReduce ? command.refs.size() : 1),
          "wrong number of element counts");
  require(!isAllReduce || isFloat(command.type), "the element type is neither f32 nor bf16");
  for (int64_t count : command.counts)
    require(count >= 0, "a number of elements is negative");
  for (size_t i = 0; i < command.refs.size(); ++i) {
    uint64_t count = uint64_t(command.counts[isCopy ? 0 : i]);
    require(command.refs[i].offset % sizeOf(command.type) == 0,
            "an offset is not a multiple of the element size");
    inside(command.refs[i], times(count, sizeOf(command.type)), "an operand");
  }
  if (!isCopy)
    return;
  uint64_t bytes = uint64_t(command.counts[0]) * sizeOf(command.type);
  apart(command.refs[0], bytes, command.refs[1], bytes);
}

/// Both lie inside their buffers.
void Validator::apart(const Ref &from, uint64_t fromBytes, const Ref &to, uint64_t toBytes) const {
  auto start = [&](const Ref &ref) { return plan.buffers[ref.buffer].offset + ref.offset; };
  require(start(from) + fromBytes <= start(to) || start(to) + toBytes <= start(from),
          "source and destination overlap");
}

/// Collectives from a source to a target, one of which is the parts of all members.
void Validator::exchange(const Command &command) const {
  require(!command.refs.empty() && command.refs.size() == 2 * command.counts.size(),
          "it has not two operands for each element count");
  require(isFloat(command.type), "the element type is neither f32 nor bf16");
  require(!command.maximum, "only an all-reduce takes the maximum");
  const bool gathers = command.kind == Command::Kind::AllGather;
  for (size_t i = 0; i < command.counts.size(); ++i) {
    require(command.counts[i] >= 0, "a number of elements is negative");
    const Ref &from = command.refs[2 * i], &to = command.refs[2 * i + 1];
    for (const Ref *ref : {&from, &to})
      require(ref->offset % sizeOf(command.type) == 0,
              "an offset is not a multiple of the element size");
    const uint64_t part = times(uint64_t(command.counts[i]), sizeOf(command.type));
    for (int64_t world : plan.worlds) {
      const uint64_t whole = times(part, uint64_t(membersOf(command.ranks, world, plan.group)));
      inside(from, gathers ? part : whole, "a source");
      inside(to, gathers ? whole : part, "a target");
      apart(from, gathers ? part : whole, to, gathers ? whole : part);
    }
  }
}

} // namespace nano::plan
