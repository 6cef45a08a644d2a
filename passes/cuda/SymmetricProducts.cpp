// symmetricCalls: which products of a program are symmetric, and the template that computes half of
// each.
//
// A product of one buffer with itself, once transposed, is symmetric, and so is one of a symmetric
// buffer with itself; each plus a part of a symmetric buffer, or of none. With x [8, 16]:
//
//   step.matmul %x, %x into %a {transpose_b}                  a = x·xᵀ
//   step.matmul %a, %a add %a into %p {alpha = …, beta = …}   p = alpha·a·a + beta·a
//
// A buffer, or a part of one, is symmetric until a command writes to it; so is one whose matrices
// are the results of several such products, as those of unequal factors are that one batch squares.
#include "passes/cuda/CudaTemplateKernels.h"

#include "ir/kernel/shapes/nano_symmetric_shape.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace nano::kernels {
namespace {

MemRefType typeOf(Value buffer) { return cast<MemRefType>(buffer.getType()); }

/// The buffers, and parts of buffers, that hold symmetric matrices one behind the other.
class Symmetric {
public:
  /// Of such a part and nothing else; matrices of several sizes may lie beside each other.
  bool contains(Value buffer) const {
    const std::optional<Part> part = partOf(buffer);
    if (!part)
      return false;
    int64_t known = part->range.begin;
    auto reaches = [&](const Part &each) {
      return each.key == part->key && each.size == part->size &&
             (known - each.range.begin) % (each.size * each.size) == 0 &&
             each.range.begin <= known && known < each.range.end;
    };
    while (known < part->range.end) {
      const auto *next = llvm::find_if(parts, reaches);
      if (next == parts.end())
        return false;
      known = next->range.end;
    }
    return true;
  }
  void add(Value buffer) {
    if (const std::optional<Part> part = partOf(buffer))
      parts.push_back(*part);
  }
  /// Something else is written there.
  void remove(Value buffer) {
    const step::ElementRange written = step::elementRange(typeOf(buffer));
    llvm::erase_if(parts, [&](const Part &each) {
      return each.key == step::bufferKey(buffer) && each.range.meets(written);
    });
  }

private:
  struct Part {
    const void *key;
    step::ElementRange range;
    int64_t size; ///< rows and columns of a matrix
  };
  static std::optional<Part> partOf(Value buffer) {
    const MemRefType type = typeOf(buffer);
    const ArrayRef<int64_t> shape = type.getShape();
    if (shape.size() < 2 || shape.back() != shape[shape.size() - 2] || !step::isContiguous(type))
      return std::nullopt;
    return Part{step::bufferKey(buffer), step::elementRange(type), shape.back()};
  }

  SmallVector<Part> parts;
};

bool isSymmetric(step::MatmulOp op, const Symmetric &symmetric) {
  return op.getA() == op.getB() && !op.getScaleA() &&
         (op.getTransposeA() != op.getTransposeB() || symmetric.contains(op.getA())) &&
         (!op.getD() || symmetric.contains(op.getD()));
}

/// The shape of a symmetric product that the template has: bf16, matrices one behind the other that
/// begin at multiples of 16 bytes, nothing in the result's place.
std::optional<SymmetricShape> shapeOf(step::MatmulOp op) {
  for (Value buffer : op.getCandidateBuffers())
    if (!typeOf(buffer).getElementType().isBF16() || !step::isContiguous(typeOf(buffer)) ||
        alignmentOf(buffer) != 16)
      return std::nullopt;
  for (Value operand : {op.getA(), op.getD()})
    if (operand && (operand == op.getC() || mayOverlap(operand, op.getC())))
      return std::nullopt;
  const std::optional<step::MatrixLayout> x = step::matrixLayout(typeOf(op.getA()));
  if (!x)
    return std::nullopt;
  // A symmetric factor is its own transpose: it is read as it lies.
  const bool transpose = op.getTransposeA() && !op.getTransposeB();
  const SymmetricShape shape{x->batch, transpose ? x->columns : x->rows,
                             transpose ? x->rows : x->columns, transpose};
  return nano::isSymmetricShape(shape) ? std::optional(shape) : std::nullopt;
}

/// Whether the template is taken instead of a library, by the rounds of tiles that each makes: a
/// round takes as many steps as the inner dimension has and those of beginning and storing a tile,
/// which are more here than the machine has for its library, as tiles are stored twice. By a tenth
/// at least, since a library has other tiles for what fits badly. Of 31 shapes that docs/gpu.md
/// tells of none was slower that this takes, and what it leaves to the library is at most 16%
/// faster here.
bool isSymmetricFaster(const SymmetricShape &s, const machine::Machine &machine) {
  constexpr double start = 250, margin = 0.9;
  const machine::Products &how = machine.products[size_t(machine::ElementType::BF16)];
  const int64_t all = s.matrices * machine.tiles(s.size, s.size, machine::ElementType::BF16);
  const double library = double(nano::divideUp(all, how.units)) * (double(s.inner) + how.startup);
  const int64_t most = how.units < 2 ? 1 : how.units / nano::MatmulTiles::clusterBlocks;
  const double own = double(nano::divideUp(s.matrices * nano::symmetricSquares(s.size), most)) *
                     (double(s.inner) + start) / machine::generatedProductShare;
  return own < margin * library;
}

TemplateCall callOf(step::MatmulOp op, const SymmetricShape &shape, int64_t multiprocessors) {
  Builder b(op.getContext());
  TemplateCall call;
  call.stem = "symmetric";
  call.operands = op.getCandidateBuffers();
  const nano::MatmulLaunch launch = nano::symmetricLaunch(shape, multiprocessors);
  call.iterations = launch.blocks;
  call.threads = launch.threads;
  call.sharedBytes = launch.sharedBytes;
  call.cluster = nano::MatmulTiles::clusterBlocks;
  const int64_t columns = shape.transpose ? shape.size : shape.inner,
                rows = shape.matrices * (shape.transpose ? shape.inner : shape.size);
  for (const nano::TensorBox &box : {nano::SymmetricTiles::rowsBox(shape.transpose),
                                     nano::SymmetricTiles::columnsBox(shape.transpose)})
    call.tensorMaps.push_back(kernel::TensorMapAttr::get(op.getContext(), /*buffer=*/0, columns,
                                                         rows, 2 * columns, box.columns, box.rows,
                                                         nano::MatmulTiles::rowBytes));
  // Of the elements on and below the diagonal.
  const double elements = double(shape.matrices * shape.size) * double(shape.size + 1) / 2;
  call.flopsType = b.getBF16Type();
  call.flops = b.getF64FloatAttr(2.0 * elements * double(shape.inner) / double(launch.blocks));
  const auto d = op.getD() ? std::optional<int64_t>(1) : std::optional<int64_t>();
  const kernel::TemplateAttrInterface instance = kernel::SymmetricAttr::get(
      op.getContext(), shape.matrices, shape.size, shape.inner, launch.blocks, shape.transpose,
      op.getAlphaAttr(), op.getBetaAttr(), /*x=*/0, d, /*c=*/d ? 2 : 1);
  call.instance = [=](const TemplateFunctions &) { return instance; };
  call.identity.set("template", instance);
  return call;
}

} // namespace

std::vector<SymmetricCall> symmetricCalls(step::ProgramOp program, const step::KernelTable &kernels,
                                          const machine::Machine &machine) {
  std::vector<SymmetricCall> calls;
  Symmetric symmetric;
  for (Operation &op : program.getBody().front()) {
    auto command = dyn_cast<step::StepCommandOpInterface>(op);
    if (!command)
      continue;
    auto matmul = dyn_cast<step::MatmulOp>(op);
    const bool makesSymmetric = matmul && isSymmetric(matmul, symmetric);
    for (const step::Access &access : step::accessesOf(command, kernels))
      if (access.writes)
        symmetric.remove(access.buffer);
    if (!makesSymmetric)
      continue;
    symmetric.add(matmul.getC());
    if (const std::optional<SymmetricShape> shape = shapeOf(matmul))
      calls.push_back({matmul, callOf(matmul, *shape, machine.multiprocessors()),
                       isSymmetricFaster(*shape, machine)});
  }
  return calls;
}

} // namespace nano::kernels
