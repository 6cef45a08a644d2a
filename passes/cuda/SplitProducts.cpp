// splitCalls: which products of a program a template computes whose tiles are cut along their inner
// dimension, and how many of them in a launch.
//
// The gradients of weights sum over all tokens and have few tiles:
//
//   step.matmul %dk, %x into %dwk {transpose_a}     tokens × 256 and tokens × 1024
//   step.matmul %dq, %x into %dwq {transpose_a}     tokens × 1024 and tokens × 1024
//
// A library's tiles of one fill a GPU's multiprocessors one and a third times, say, and of another
// a fifth of them. Products with as many summands and a common factor are computed where the last
// of them is, when nothing between them that takes long has to wait. Of others nothing is read less
// often: 3072 × 768 and 768 × 768 of 49,152 summands, together, took 436 and 505 us in steps of two
// models on one H100, the library's 409 and 418.
#include "passes/cuda/CudaTemplateKernels.h"

#include "ir/kernel/shapes/nano_split_shape.h"
#include "passes/DetailRemark.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace nano::kernels {
namespace {

MemRefType matrixType(Value buffer) { return cast<MemRefType>(buffer.getType()); }

/// The products of a launch as the template's shapes have them.
struct Products {
  int count = 0, inner = 0;
  SmallVector<int64_t> allRows, allColumns;
  int rows(int i) const { return int(allRows[i]); }
  int columns(int i) const { return int(allColumns[i]); }
};

Products productsOf(ArrayRef<step::MatmulOp> group) {
  Products products;
  for (step::MatmulOp op : group) {
    const MemRefType c = matrixType(op.getC());
    products.allRows.push_back(c.getDimSize(0));
    products.allColumns.push_back(c.getDimSize(1));
    products.inner = int(matrixType(op.getA()).getDimSize(0));
  }
  products.count = int(group.size());
  return products;
}

/// Of f32 from factors of bf16 that both have the summed dimension first, plus what the result
/// holds or nothing.
bool isSplit(step::MatmulOp op) {
  const MemRefType c = matrixType(op.getC());
  if (!op.getTransposeA() || op.getTransposeB() || op.getScaleA() || !c.getElementType().isF32() ||
      c.getRank() != 2 || !step::isContiguous(c) || op.getAlpha().convertToDouble() != 1 ||
      op.getCandidates() ||
      (op.getD() && (op.getD() != op.getC() || op.getBeta().convertToDouble() != 1)) ||
      !nano::isSplitShape(int(c.getDimSize(0)), int(c.getDimSize(1))))
    return false;
  for (Value factor : {op.getA(), op.getB()}) {
    const MemRefType type = matrixType(factor);
    const std::optional<step::MatrixLayout> layout = step::matrixLayout(type);
    if (!type.getElementType().isBF16() || type.getRank() != 2 || !layout ||
        layout->leading % 8 != 0 || alignmentOf(factor) != 16 || mayOverlap(factor, op.getC()))
      return false;
  }
  return alignmentOf(op.getC()) == 16 && matrixType(op.getA()).getDimSize(0) <= INT32_MAX;
}

int64_t bytesOf(Value buffer) {
  const MemRefType type = matrixType(buffer);
  return type.getNumElements() * step::elementBytes(type.getElementType());
}

/// Products that one launch could compute where the last one is.
class Group {
public:
  ArrayRef<step::MatmulOp> products() const { return all; }
  /// Whether the product can be one of them: it has a factor in common with one, which is then read
  /// once, and reads and writes none of the others' results.
  bool takes(step::MatmulOp op) const {
    constexpr size_t most = 6;
    if (all.empty())
      return true;
    step::MatmulOp first = all.front();
    return all.size() < most && bool(op.getD()) == bool(first.getD()) &&
           matrixType(op.getA()).getDimSize(0) == matrixType(first.getA()).getDimSize(0) &&
           llvm::any_of(
               all,
               [&](step::MatmulOp each) {
                 return op.getA() == each.getA() || op.getB() == each.getB();
               }) &&
           llvm::none_of(
               all,
               [&](step::MatmulOp each) {
                 return mayOverlap(op.getA(), each.getC()) || mayOverlap(op.getB(), each.getC()) ||
                        mayOverlap(op.getC(), each.getC()) || mayOverlap(op.getC(), each.getA()) ||
                        mayOverlap(op.getC(), each.getB());
               });
  }
  void add(step::MatmulOp op) { all.push_back(op); }
  /// Whether they may come after a command: it needs no result of theirs, leaves their factors as
  /// they are, and touches so few bytes that factors are not kept much longer for it.
  bool canPass(ArrayRef<step::Access> accesses) const {
    constexpr int64_t share = 16;
    int64_t touched = 0;
    for (const step::Access &access : accesses) {
      touched += bytesOf(access.buffer);
      for (step::MatmulOp each : all)
        if (mayOverlap(access.buffer, each.getC()) ||
            (access.writes &&
             (mayOverlap(access.buffer, each.getA()) || mayOverlap(access.buffer, each.getB()))))
          return false;
    }
    return llvm::all_of(all, [&](step::MatmulOp each) {
      return share * touched <= bytesOf(each.getA()) + bytesOf(each.getB());
    });
  }

private:
  SmallVector<step::MatmulOp> all;
};

/// Seconds of a tile of the machine's figures and of one summand of each of its elements.
double secondsOfSummands(const machine::Products &how) {
  return 2.0 * double(how.rows) * double(how.columns) * double(how.units) / how.flops;
}

/// What a library's product takes that sums over many rows. It has tiles of many widths, takes
/// those that fill the machine best, and cuts these too, into parts of its own that go through
/// memory and are added by a kernel of its own. On one H100, us predicted and of cuBLASLt's fastest
/// algorithm: 2816 × 1024 × 32768 268 and 273 to 282, 1024 × 1024 × 32768 103 and 103, 2304 × 768 ×
/// 49152 268 and 267, 3072 × 768 × 49152 331 and 328, 768 × 768 × 49152 96 and 94, 4800 × 1600 ×
/// 16384 337 and 353, 6400 × 1600 × 16384 449 and 451.
double librarySeconds(int64_t m, int64_t n, int64_t k, const machine::Machine &machine) {
  struct Tile {
    int64_t rows, columns;
    double share; ///< of the rate that larger ones reach: shared memory limits small ones
  };
  constexpr Tile tiles[] = {{128, 64, 0.87}, {128, 96, 0.93}, {128, 128, 1},
                            {128, 160, 1},   {128, 192, 1},   {128, 256, 1}};
  constexpr int64_t mostParts = 16;
  const machine::Products &how = machine.products[size_t(machine::ElementType::BF16)];
  const double whole = secondsOfSummands(how) / double(how.rows * how.columns);
  double least = std::numeric_limits<double>::infinity();
  for (const auto &[rows, columns, share] : tiles)
    for (const auto &[down, across] : {std::pair(m, n), std::pair(n, m)})
      for (int64_t parts = 1;
           parts == 1 || (how.split > 0 && parts <= mostParts && parts * how.split <= k); ++parts) {
        const int64_t all = nano::divideUp(down, rows) * nano::divideUp(across, columns) * parts;
        double seconds = double(nano::divideUp(all, how.units)) *
                         (double(k) / double(parts) + how.startup) * whole *
                         double(rows * columns) / share;
        if (parts > 1) { // written, read
          const double bytes = 2.0 * 4 * double(parts * m * n);
          seconds += bytes / machine.memory.at(bytes) + machine.command();
        }
        least = std::min(least, seconds);
      }
  return least;
}

/// The most parts that a pair of tiles is cut into.
int mostParts(const Products &products, int clusters) {
  int most = 0;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    nano::SplitWork<Products> work(products, clusters, cluster);
    for (nano::SplitPart part = {}; work.next(part);)
      most = std::max(most, part.before + 1);
  }
  return most;
}

/// What the template takes for products. Where there are fewer pairs of tiles than clusters and
/// some have more than two parts, clusters begin at more than two places of the factors and parts
/// wait for those before them: in steps on one H100 such launches took 10 to 21% longer than of
/// these steps expected, 1280 × 1280 × 32768 193 us, 2304 × 768 × 49152 275 to 285, 256, 256 and
/// 1024 × 1024 × 32768 188, 256, 256 and 768 × 768 × 16384 76; others up to 6%, 2816 × 1024 × 32768
/// 271, two of them 523, three of 1280 × 1280 × 32768 490, 2048 × 5632 × 16384 540.
double splitSeconds(const Products &products, const machine::Machine &machine) {
  using Tiles = nano::MatmulTiles;
  constexpr double crowded = 1.15;
  const machine::Products &how = machine.products[size_t(machine::ElementType::BF16)];
  const int pairs = nano::splitPairs(products);
  const int clusters =
      int(nano::splitLaunch(products, machine.multiprocessors()).blocks / Tiles::clusterBlocks);
  const double seconds = double(nano::splitSteps(products, clusters)) * nano::SplitTiles::inner *
                         secondsOfSummands(how) * double(Tiles::rows * Tiles::columns) /
                         double(how.rows * how.columns) / machine::generatedProductShare;
  return pairs < clusters && mostParts(products, clusters) > 2 ? crowded * seconds : seconds;
}

TemplateCall callOf(ArrayRef<step::MatmulOp> group, int64_t multiprocessors) {
  step::MatmulOp first = group.front();
  MLIRContext *context = first.getContext();
  Builder b(context);
  const Products products = productsOf(group);
  TemplateCall call;
  call.stem = "split";
  const nano::MatmulLaunch launch = nano::splitLaunch(products, multiprocessors);
  call.iterations = launch.blocks;
  call.threads = launch.threads;
  call.sharedBytes = launch.sharedBytes;
  call.cluster = nano::MatmulTiles::clusterBlocks;
  auto position = [&](Value buffer) -> int64_t {
    if (!llvm::is_contained(call.operands, buffer))
      call.operands.push_back(buffer);
    return llvm::find(call.operands, buffer) - call.operands.begin();
  };
  SmallVector<int64_t> a, b_, c;
  double elements = 0;
  const nano::TensorBox box = nano::SplitTiles::box();
  for (step::MatmulOp op : group) {
    a.push_back(position(op.getA()));
    b_.push_back(position(op.getB()));
    for (auto [factor, at] : {std::pair(op.getA(), a.back()), std::pair(op.getB(), b_.back())}) {
      const step::MatrixLayout layout = *step::matrixLayout(matrixType(factor));
      call.tensorMaps.push_back(kernel::TensorMapAttr::get(
          context, at, layout.columns, layout.rows, nano::SplitTiles::elementBytes * layout.leading,
          box.columns, box.rows, nano::MatmulTiles::rowBytes));
    }
    elements += double(matrixType(op.getC()).getNumElements());
  }
  for (step::MatmulOp op : group)
    c.push_back(position(op.getC()));
  call.flopsType = b.getBF16Type();
  call.flops = b.getF64FloatAttr(2.0 * elements * products.inner / double(launch.blocks));
  const bool adds = bool(first.getD());
  const int64_t counts = int64_t(call.operands.size());
  const auto list = [&](ArrayRef<int64_t> numbers) { return b.getDenseI64ArrayAttr(numbers); };
  const kernel::TemplateAttrInterface instance = kernel::SplitAttr::get(
      context, list(products.allRows), list(products.allColumns), products.inner, launch.blocks,
      list(a), list(b_), list(adds ? ArrayRef<int64_t>() : c), list(adds ? c : ArrayRef<int64_t>()),
      counts);
  call.instance = [=](const TemplateFunctions &) { return instance; };
  call.identity.set("template", instance);
  return call;
}

/// Those of a group that are computed by one launch, if any are: what is left to the library and
/// the launch are fastest together, by so much that what predictions leave out does not decide.
SmallVector<step::MatmulOp> fastest(ArrayRef<step::MatmulOp> group,
                                    const machine::Machine &machine) {
  constexpr double margin = 0.985;
  SmallVector<step::MatmulOp> best;
  double gain = 0;
  for (unsigned set = 1; set < 1U << group.size(); ++set) {
    SmallVector<step::MatmulOp> taken;
    double library = 0;
    for (unsigned i = 0; i < group.size(); ++i)
      if (set >> i & 1) {
        step::MatmulOp op = group[i];
        taken.push_back(op);
        const MemRefType c = matrixType(op.getC());
        library += librarySeconds(c.getDimSize(0), c.getDimSize(1),
                                  matrixType(op.getA()).getDimSize(0), machine) +
                   machine.command();
      }
    const double own = splitSeconds(productsOf(taken), machine) + 2 * machine.command();
    if (own < margin * library && library - own > gain) {
      gain = library - own;
      best = taken;
    }
  }
  return best;
}

} // namespace

std::vector<SplitCall> splitCalls(step::ProgramOp program, const step::KernelTable &kernels,
                                  const machine::Machine &machine) {
  std::vector<SplitCall> calls;
  Group group;
  auto close = [&] {
    const SmallVector<step::MatmulOp> taken = fastest(group.products(), machine);
    if (!taken.empty())
      calls.push_back(
          {taken, callOf(taken, machine.multiprocessors()), nano::splitCounts(productsOf(taken))});
    for (step::MatmulOp op : taken) {
      InFlightDiagnostic remark = emitDetail(op);
      remark << "cut along what it sums over, by a kernel of our own";
      if (taken.size() > 1)
        remark << " that computes " << taken.size() << " products";
      remark << ", instead of by the library";
    }
    group = {};
  };
  for (Operation &op : program.getBody().front()) {
    auto command = dyn_cast<step::StepCommandOpInterface>(op);
    if (!command)
      continue;
    auto matmul = dyn_cast<step::MatmulOp>(op);
    if (matmul && isSplit(matmul)) {
      if (!group.takes(matmul))
        close();
      group.add(matmul);
    } else if (!group.canPass(step::accessesOf(command, kernels))) {
      close();
    }
  }
  close();
  return calls;
}

} // namespace nano::kernels
