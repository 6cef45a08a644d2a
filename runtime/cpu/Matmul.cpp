// oneDNN's matmul primitive behind the plan's Matmul command.
#include "runtime/cpu/Matmul.h"
#include "runtime/NumberFormats.h"

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace nano::cpu {
namespace {

using dnnl::memory;
using plan::DType;

dnnl::engine &engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::data_type typeOf(DType type) {
  return type == DType::F32 ? memory::data_type::f32 : memory::data_type::bf16;
}

/// A [batch, rows, columns] operand with its rows `leading` elements apart, or its columns when
/// transposed. A batch that repeats one matrix is a dimension of size 1, which oneDNN broadcasts.
memory::desc describe(DType type, int64_t batch, int64_t rows, int64_t columns, int64_t leading,
                      bool transposed, int64_t stride) {
  memory::dims sizes = {rows, columns};
  memory::dims strides = transposed ? memory::dims{1, leading} : memory::dims{leading, 1};
  if (batch > 1) {
    sizes.insert(sizes.begin(), stride ? batch : 1);
    strides.insert(strides.begin(), stride ? stride : rows * columns);
  }
  return {sizes, typeOf(type), strides};
}

/// oneDNN as it is.
class DirectMatmul : public Matmul {
public:
  /// How D is added to the product.
  enum class Addition {
    None,
    InPlace, ///< D is C: oneDNN's sum
    Copied,  ///< copy D to C first; as fast as oneDNN's reading D beside C, which can only add it
             ///< unscaled
  };

  /// Null when oneDNN has no optimized implementation.
  static std::unique_ptr<DirectMatmul> make(const MatmulProblem &problem, const ThreadTeam &team) {
    auto isDirect = [](DType type) { return type == DType::F32 || type == DType::BF16; };
    if (!isDirect(problem.aType) || problem.aType != problem.bType || !isDirect(problem.cType))
      return nullptr;
    if (problem.beta == 0)
      return make(problem, team, Addition::None);
    return make(problem, team, problem.inPlace ? Addition::InPlace : Addition::Copied);
  }

  uint64_t scratchBytes() const override { return primitiveScratch.get_desc().get_size(); }
  std::string implementation() const override { return name; }

  Status run(const MatmulOperands &operands, void *scratch) override {
    if (addition == Addition::Copied)
      copyToC(operands.c, operands.d);
    try {
      left.set_data_handle(const_cast<void *>(operands.a));
      right.set_data_handle(const_cast<void *>(operands.b));
      result.set_data_handle(operands.c);
      primitiveScratch.set_data_handle(scratch);
      primitive.execute(stream, arguments);
      stream.wait();
    } catch (const dnnl::error &error) {
      return failed(std::string("oneDNN: ") + error.what());
    }
    return ok();
  }

private:
  DirectMatmul(const MatmulProblem &problem, const ThreadTeam &team, Addition addition)
      : problem(problem), team(team), addition(addition), stream(engine()) {}

  static std::unique_ptr<DirectMatmul> make(const MatmulProblem &p, const ThreadTeam &team,
                                            Addition addition) {
    std::unique_ptr<DirectMatmul> self(new DirectMatmul(p, team, addition));
    memory::desc a = describe(p.aType, p.batch, p.m, p.k, p.lda, p.transposeA, p.strideA);
    memory::desc b = describe(p.bType, p.batch, p.k, p.n, p.ldb, p.transposeB, p.strideB);
    memory::desc c = describe(p.cType, p.batch, p.m, p.n, p.ldc, false, p.strideC);

    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (addition != Addition::None) {
      dnnl::post_ops after;
      after.append_sum(float(p.beta));
      attributes.set_post_ops(after);
    }
    if (p.alpha != 1)
      attributes.set_output_scales(0, {float(p.alpha)});

    try {
      dnnl::matmul::primitive_desc primitive({a, b, c}, attributes, engine());
      self->name = primitive.impl_info_str();
      if (self->name.find("ref") != std::string::npos)
        return nullptr;
      self->primitive = dnnl::matmul(primitive);
      self->left = memory(a, engine(), nullptr);
      self->right = memory(b, engine(), nullptr);
      self->result = memory(c, engine(), nullptr);
      self->primitiveScratch = memory(primitive.scratchpad_desc(), engine(), nullptr);
      self->arguments = {{DNNL_ARG_SRC, self->left},
                         {DNNL_ARG_WEIGHTS, self->right},
                         {DNNL_ARG_DST, self->result},
                         {DNNL_ARG_SCRATCHPAD, self->primitiveScratch}};
    } catch (const dnnl::error &error) {
      if (error.status == dnnl_unimplemented)
        return nullptr;
      throw;
    }
    return self;
  }

  void copyToC(void *c, const void *d) const {
    uint64_t size = plan::sizeOf(problem.cType);
    auto *to = static_cast<std::byte *>(c);
    auto *from = static_cast<const std::byte *>(d);
    constexpr int64_t rows = 64;
    int64_t blocks = (problem.m + rows - 1) / rows;
    team.forEach(problem.batch * blocks, [&](int64_t i, int) {
      int64_t batch = i / blocks, begin = i % blocks * rows;
      for (int64_t row = begin; row < std::min(begin + rows, problem.m); ++row)
        std::copy_n(from + uint64_t(batch * problem.strideD + row * problem.ldd) * size,
                    uint64_t(problem.n) * size,
                    to + uint64_t(batch * problem.strideC + row * problem.ldc) * size);
    });
  }

  MatmulProblem problem;
  const ThreadTeam &team;
  Addition addition;
  std::string name;
  dnnl::stream stream;
  dnnl::matmul primitive;
  memory left, right, result, primitiveScratch;
  std::unordered_map<int, memory> arguments;
};

/// Rows of `columns` elements of any type, `leading` apart, converted to f32 without gaps.
class Converter {
public:
  explicit Converter(DType type) : type(type) {
    if (plan::sizeOf(type) == 1)
      for (int bits = 0; bits < 256; ++bits)
        table[size_t(bits)] =
            type == DType::F8E4M3FN ? fromE4m3(uint8_t(bits)) : fromE5m2(uint8_t(bits));
  }

  void convert(const void *from, int64_t at, int64_t count, float *to) const {
    switch (type) {
    case DType::F32:
      std::copy_n(static_cast<const float *>(from) + at, count, to);
      return;
    case DType::BF16:
      for (int64_t i = 0; i < count; ++i)
        to[i] = fromBf16(static_cast<const uint16_t *>(from)[at + i]);
      return;
    default:
      for (int64_t i = 0; i < count; ++i)
        to[i] = table[static_cast<const uint8_t *>(from)[at + i]];
    }
  }

private:
  DType type;
  std::array<float, 256> table = {};
};

/// Operands of types that oneDNN does not multiply here: f32 copies of A and B, an f32 product, one
/// rounding.
class ConvertedMatmul : public Matmul {
public:
  static std::unique_ptr<Matmul> make(const MatmulProblem &problem, const ThreadTeam &team) {
    std::unique_ptr<ConvertedMatmul> self(new ConvertedMatmul(problem, team));
    MatmulProblem inner = problem;
    inner.aType = inner.bType = inner.cType = DType::F32;
    inner.lda = self->a.columns;
    inner.strideA = self->a.batch > 1 ? self->a.rows * self->a.columns : 0;
    inner.ldb = self->b.columns;
    inner.strideB = self->b.batch > 1 ? self->b.rows * self->b.columns : 0;
    if (self->rounds) {
      inner.ldc = problem.n;
      inner.strideC = problem.m * problem.n;
      inner.beta = 0;
    }
    self->product = DirectMatmul::make(inner, team);
    if (!self->product)
      return nullptr;
    return self;
  }

  uint64_t scratchBytes() const override { return innerOffset() + product->scratchBytes(); }
  std::string implementation() const override {
    return "f32 copies + " + product->implementation();
  }

  Status run(const MatmulOperands &operands, void *scratch) override {
    auto *floats = static_cast<float *>(scratch);
    float *aCopy = floats, *bCopy = aCopy + a.padded(), *cCopy = bCopy + b.padded();
    convert(a, operands.a, aCopy);
    convert(b, operands.b, bCopy);
    void *inner = static_cast<std::byte *>(scratch) + innerOffset();
    if (!rounds)
      return product->run({aCopy, bCopy, operands.c, operands.d}, inner);
    if (Status status = product->run({aCopy, bCopy, cCopy}, inner); !status)
      return status;
    round(cCopy, static_cast<uint16_t *>(operands.c), static_cast<const uint16_t *>(operands.d));
    return ok();
  }

private:
  /// An operand as it is stored: `rows` rows (of the transposed matrix when it is transposed).
  struct Stored {
    int64_t batch, rows, columns, leading, stride;
    Converter converter;
    /// Elements of its copy, rounded up so that what follows is aligned to 64 bytes.
    uint64_t padded() const { return (uint64_t(batch * rows * columns) + 15) / 16 * 16; }
  };

  ConvertedMatmul(const MatmulProblem &p, const ThreadTeam &team)
      : problem(p), team(team), a{p.strideA ? p.batch : 1,
                                  p.transposeA ? p.k : p.m,
                                  p.transposeA ? p.m : p.k,
                                  p.lda,
                                  p.strideA,
                                  Converter(p.aType)},
        b{p.strideB ? p.batch : 1,
          p.transposeB ? p.n : p.k,
          p.transposeB ? p.k : p.n,
          p.ldb,
          p.strideB,
          Converter(p.bType)},
        rounds(p.cType == DType::BF16) {}

  uint64_t innerOffset() const {
    uint64_t result = rounds ? uint64_t(problem.batch * problem.m * problem.n) : 0;
    return (a.padded() + b.padded() + (result + 15) / 16 * 16) * sizeof(float);
  }

  void convert(const Stored &operand, const void *from, float *to) const {
    team.forEach(operand.batch * operand.rows, [&](int64_t i, int) {
      int64_t batch = i / operand.rows, row = i % operand.rows;
      operand.converter.convert(from, batch * operand.stride + row * operand.leading,
                                operand.columns, to + i * operand.columns);
    });
  }

  void round(const float *sums, uint16_t *c, const uint16_t *d) const {
    float beta = float(problem.beta);
    team.forEach(problem.batch * problem.m, [&](int64_t i, int) {
      int64_t batch = i / problem.m, row = i % problem.m;
      const float *from = sums + i * problem.n;
      uint16_t *to = c + batch * problem.strideC + row * problem.ldc;
      if (beta == 0) {
        for (int64_t j = 0; j < problem.n; ++j)
          to[j] = toBf16(from[j]);
        return;
      }
      const uint16_t *added = d + batch * problem.strideD + row * problem.ldd;
      for (int64_t j = 0; j < problem.n; ++j)
        to[j] = toBf16(from[j] + beta * fromBf16(added[j]));
    });
  }

  MatmulProblem problem;
  const ThreadTeam &team;
  Stored a, b;
  bool rounds; ///< the product is summed in f32 scratch and rounded to C
  std::unique_ptr<DirectMatmul> product;
};

} // namespace

MatmulProblem problemOf(const plan::Matmul &c) {
  const plan::MatmulScales scales = c.scales.value_or(plan::MatmulScales());
  MatmulProblem p = {c.aType,         c.bType,      c.cType,      c.transposeA,
                     c.transposeB,    c.m,          c.n,          c.k,
                     c.batch,         c.lda,        c.ldb,        c.ldc,
                     c.ldd,           c.strideA,    c.strideB,    c.strideC,
                     c.strideD,       c.alpha,      c.beta,       c.scales.has_value(),
                     scales.block,    scales.rowsA, scales.rowsB, scales.stridesA,
                     scales.stridesB, false};
  p.inPlace = c.beta != 0 && c.c.buffer == c.d.buffer && c.c.offset == c.d.offset &&
              c.ldc == c.ldd && (c.batch == 1 || c.strideC == c.strideD);
  if (c.batch == 1)
    p.strideA = p.strideB = p.strideC = p.strideD = 0;
  if (c.beta == 0)
    p.ldd = p.strideD = 0;
  return p;
}

std::unique_ptr<Matmul> makeDirectMatmul(const MatmulProblem &problem, const ThreadTeam &team) {
  return DirectMatmul::make(problem, team);
}

Matmuls::Matmuls(const ThreadTeam &team) : team(team) {}
Matmuls::~Matmuls() = default;

Result<Matmul *> Matmuls::get(const MatmulProblem &problem) {
  std::unique_ptr<Matmul> &product = products[problem];
  if (product)
    return product.get();
  try {
    if (problem.scaled) {
      product = makeScaledMatmul(problem, team);
    } else {
      product = makePackedMatmul(problem, team);
      if (!product)
        product = makeDirectMatmul(problem, team);
      if (!product)
        product = ConvertedMatmul::make(problem, team);
    }
  } catch (const dnnl::error &error) {
    return failed(std::string("oneDNN cannot compute this product: ") + error.what());
  }
  if (!product)
    return failed("oneDNN has no implementation for this product");
  return product.get();
}

Status Matmuls::reserveScratch() {
  uint64_t bytes = 0;
  for (const auto &[problem, product] : products)
    bytes = std::max(bytes, product->scratchBytes());
  if (!scratchMemory.allocate(bytes))
    return failed("out of memory for the scratch memory of matrix products");
  return ok();
}

std::string matmulLibrary() {
  const dnnl_version_t *version = dnnl::version();
  const char *instructions = "";
  switch (dnnl::get_effective_cpu_isa()) {
  case dnnl::cpu_isa::sse41:
    instructions = " (sse4.1)";
    break;
  case dnnl::cpu_isa::avx:
    instructions = " (avx)";
    break;
  case dnnl::cpu_isa::avx2:
  case dnnl::cpu_isa::avx2_vnni:
    instructions = " (avx2)";
    break;
  case dnnl::cpu_isa::avx512_core:
  case dnnl::cpu_isa::avx512_core_vnni:
    instructions = " (avx512_core)";
    break;
  case dnnl::cpu_isa::avx512_core_bf16:
    instructions = " (avx512_core_bf16)";
    break;
  case dnnl::cpu_isa::avx512_core_amx:
    instructions = " (avx512_core_amx)";
    break;
  default:
    break;
  }
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + instructions;
}

} // namespace nano::cpu
