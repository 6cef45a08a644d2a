// The struct that describes an op to its template, and the call, from the kernel function's
// attributes.
#include "codegen/cuda/CudaTemplates.h"

#include "codegen/CustomKernels.h"

#include "mlir/IR/SymbolTable.h"

#include <fmt/format.h>

#include <map>

using namespace mlir;

namespace nano::codegen {

namespace {
/// A template kernel's attributes, read.
class TemplateKernel {
public:
  explicit TemplateKernel(kernel::FuncOp kernel)
      : kernel(kernel), name(kernel->getAttrOfType<StringAttr>(templateAttrName)),
        shape(kernel->getAttrOfType<DenseI64ArrayAttr>("nano.shape")),
        operands(kernel->getAttrOfType<DenseI64ArrayAttr>("nano.operands")),
        results(kernel->getAttrOfType<ArrayAttr>("nano.results")) {}

  LogicalResult verify(size_t sizes, size_t operandCount, size_t resultCount) {
    if (!shape || !operands || !results || shape.size() != int64_t(sizes) ||
        operands.size() != int64_t(operandCount) || results.size() != resultCount)
      return kernel.emitOpError("has not the attributes of template ") << name;
    return success();
  }

  BlockArgument operand(unsigned i) { return kernel.getArgument(operands[i]); }
  ArrayRef<int64_t> places(unsigned result) {
    return cast<DenseI64ArrayAttr>(results[result]).asArrayRef();
  }
  static std::string elementOf(BlockArgument argument) {
    return cudaType(cast<MemRefType>(argument.getType()).getElementType());
  }
  bool isOne(StringRef attribute) {
    auto value = kernel->getAttrOfType<BoolAttr>(attribute);
    return value && value.getValue();
  }

  kernel::FuncOp kernel;
  StringAttr name;
  DenseI64ArrayAttr shape, operands;
  ArrayAttr results;
};

/// "{q, 2304, 128}": pointer and strides, without those that the type's default is for.
std::string view(BlockArgument argument, const std::string &pointer) {
  auto type = cast<MemRefType>(argument.getType());
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return pointer;
  return fmt::format("{{{}, {}}}", pointer, fmt::join(strides, ", "));
}

int64_t strideOf(BlockArgument argument) {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  auto type = cast<MemRefType>(argument.getType());
  return succeeded(type.getStridesAndOffset(strides, offset)) && !strides.empty() ? strides[0] : 1;
}

/// A score function of the struct: its statements from the function that the attribute names.
LogicalResult scoreText(kernel::FuncOp kernel, StringRef attribute, StringRef name,
                        ArrayRef<const char *> parameters, std::string &text) {
  auto symbol = kernel->getAttrOfType<FlatSymbolRefAttr>(attribute);
  auto function = kernel->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol.getAttr());
  if (!function || function.isDeclaration() || function.getNumArguments() != parameters.size())
    return kernel.emitOpError("names ") << symbol << ", which is no score function";
  CudaPrinter printer(4);
  std::vector<std::string> list;
  for (auto [argument, parameter] : llvm::zip(function.getArguments(), parameters)) {
    printer.define(argument, printer.names.take(parameter));
    list.push_back(cudaType(argument.getType()) + " " + parameter);
  }
  if (failed(printer.block(function.getBody().front())))
    return failure();
  text += fmt::format("  static NANO_DEVICE float {}({}) {{\n{}  }}\n", name.str(),
                      fmt::join(list, ", "), printer.out);
  return success();
}

FailureOr<std::string> attentionStruct(TemplateKernel &k) {
  bool isGrad = k.name == "attention_grad";
  if (failed(k.verify(7, isGrad ? 8 : 5, isGrad ? 3 : 2)))
    return failure();
  auto scale = k.kernel->getAttrOfType<FloatAttr>("nano.scale");
  if (!scale)
    return k.kernel.emitOpError("has no nano.scale");
  bool hasScore = k.kernel->hasAttr("nano.score");
  std::string text = fmt::format(
      "\nstruct Attention {{\n  using Element = {};\n  static constexpr int tokens = {}, heads = "
      "{}, keyHeads = {}, headSize = {},\n                       multiprocessors = {};\n  static "
      "constexpr bool vectorRows = {};\n"
      "  static constexpr float scale = {};\n  static constexpr bool hasScore = {};\n",
      TemplateKernel::elementOf(k.operand(0)), k.shape[0], k.shape[1], k.shape[6], k.shape[2],
      k.shape[5], k.shape[4] != 0,
      cudaLiteral(FloatAttr::get(Float32Type::get(scale.getContext()), scale.getValueAsDouble())),
      hasScore);
  if (hasScore &&
      failed(scoreText(k.kernel, "nano.score", "score", {"s", "query", "key", "head"}, text)))
    return failure();
  if (hasScore && isGrad &&
      failed(scoreText(k.kernel, "nano.score_grad", "scoreGrad",
                       {"s", "query", "key", "head", "gradient"}, text)))
    return failure();
  return text + "};\n";
}

FailureOr<std::string> scatterStruct(TemplateKernel &k) {
  bool isSum = k.name == "scatter_sum";
  if (failed(k.verify(4, isSum ? 2 : 1, 1)))
    return failure();
  std::string types;
  if (isSum)
    types = fmt::format("  using Element = {};\n  using Result = {};\n",
                        TemplateKernel::elementOf(k.operand(0)),
                        TemplateKernel::elementOf(k.kernel.getArgument(k.places(0)[0])));
  return fmt::format(
      "\nstruct Scatter {{\n{}  static constexpr int tokens = {}, rows = {}, columns = "
      "{};\n  static constexpr bool vectorRows = {};\n}};\n",
      types, k.shape[0], k.shape[1], k.shape[2], k.shape[3] != 0);
}

FailureOr<std::string> recurrenceStruct(TemplateKernel &k) {
  const bool isTotals = k.name == "recurrence_totals";
  auto initial = k.kernel->getAttrOfType<FloatAttr>("nano.initial");
  // The last operand of the second launch is the scratch buffer of the first, if there is one.
  const size_t ins = k.shape && k.shape.size() == 7 ? size_t(k.shape[3] + k.shape[4]) : 0;
  const bool hasScratch = !isTotals && k.operands && size_t(k.operands.size()) > ins;
  if (!initial || failed(k.verify(7, ins + hasScratch, 1)))
    return k.kernel.emitOpError("has not the attributes of template ") << k.name;
  return fmt::format(
      "\nstruct Recurrence {{\n  using Element = {};\n  static constexpr int sequences = {}, "
      "length = {}, channels = {};\n  static constexpr bool hasFactor = {}, hasTerm = {}, "
      "reverse = {}, adjoint = {};\n  static constexpr float initial = {};\n}};\n",
      TemplateKernel::elementOf(k.operand(0)), k.shape[0], k.shape[1], k.shape[2], k.shape[3] != 0,
      k.shape[4] != 0, k.shape[5] != 0, k.shape[6] != 0,
      cudaLiteral(
          FloatAttr::get(Float32Type::get(initial.getContext()), initial.getValueAsDouble())));
}
FailureOr<std::string> bandStruct(TemplateKernel &k) {
  if (failed(k.verify(5, 2, 1)))
    return failure();
  return fmt::format(
      "\nstruct Band {{\n  using First = {};\n  using Second = {};\n  using Result = {};\n  static "
      "constexpr int tokens = {}, heads = {}, size = {}, width = {};\n  static constexpr bool "
      "transpose = {};\n}};\n",
      TemplateKernel::elementOf(k.operand(0)), TemplateKernel::elementOf(k.operand(1)),
      TemplateKernel::elementOf(k.kernel.getArgument(k.places(0)[0])), k.shape[0], k.shape[1],
      k.shape[2], k.shape[3], k.shape[4] != 0);
}
/// The struct of a product: its sizes, what its epilogue reads and writes, the epilogue.
class ProductStruct {
public:
  explicit ProductStruct(TemplateKernel &k) : k(k) {
    for (const char *word :
         {"ElementA",   "ElementB",   "Result",  "rows",      "columns",      "inner",
          "transposeA", "transposeB", "blocks",  "sums",      "scale",        "addsColumns",
          "Others",     "load",       "store",   "storeSums", "storeColumns", "row",
          "column",     "part",       "product", "others",    "totals",       "Columns",
          "columns",    "copies",     "copy",    "to",        "loadColumns"})
      names.take(word);
    if (!isWellFormed(k))
      return;
    for (unsigned i = 0; i < k.kernel.getNumArguments(); ++i)
      if (isEpilogues(k.kernel, i)) {
        const StringRef name = k.kernel.getParameter(i).getName();
        members[i] = names.take(name.empty() ? fmt::format("operand_{}", i) : name.str());
      }
  }

  LogicalResult verify() {
    if (!isWellFormed(k))
      return k.kernel.emitOpError("has not the attributes of template ") << k.name;
    auto symbol = k.kernel->getAttrOfType<FlatSymbolRefAttr>("nano.epilogue");
    if (symbol)
      epilogue = k.kernel->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol.getAttr());
    if (!epilogue || epilogue.isDeclaration() ||
        epilogue.getNumArguments() != 1 + others().size() ||
        epilogue.getNumResults() != k.results.size())
      return k.kernel.emitOpError("names no epilogue for its operands and results");
    for (auto [i, type] : llvm::enumerate(epilogue.getResultTypes()))
      if (!isa<VectorType>(type))
        sums.push_back(i);
    if (auto result = k.kernel->getAttrOfType<IntegerAttr>("nano.column_sum")) {
      columnSum = size_t(result.getInt());
      if (!sums.empty() || *columnSum >= k.results.size())
        return k.kernel.emitOpError("sums along rows and columns, or no result of its own");
    }
    return success();
  }

  static bool isWellFormed(const TemplateKernel &k) {
    return k.operands && k.results && k.shape && k.shape.size() == 7 &&
           k.operands.size() >= firstOther(k);
  }
  /// True for arguments that the epilogue reads or writes.
  static bool isEpilogues(kernel::FuncOp kernel, unsigned argument) {
    TemplateKernel k(kernel);
    constexpr unsigned factors = 2;
    return llvm::is_contained(k.operands.asArrayRef().drop_front(factors), int64_t(argument)) ||
           llvm::any_of(k.results.getAsRange<DenseI64ArrayAttr>(), [&](DenseI64ArrayAttr places) {
             return llvm::is_contained(places.asArrayRef(), int64_t(argument));
           });
  }

  FailureOr<std::string> text() {
    std::string text = fmt::format(
        "\nstruct Product {{\n  using ElementA = {};\n  using ElementB = {};\n"
        "  using Result = {};\n"
        "  static constexpr int rows = {}, columns = {}, inner = {}, blocks = {}, "
        "sums = {};\n"
        "  static constexpr bool transposeA = {}, transposeB = {}, addsColumns = {};\n",
        TemplateKernel::elementOf(k.operand(0)), TemplateKernel::elementOf(k.operand(1)),
        cudaType(productType().getElementType()), k.shape[0], k.shape[1], k.shape[2], k.shape[6],
        sums.size(), k.shape[3] != 0, k.shape[4] != 0, columnSum.has_value());
    for (auto &[argument, name] : members)
      text += fmt::format("  {}{} *{};\n", isConstant(argument) ? "const " : "",
                          TemplateKernel::elementOf(k.kernel.getArgument(argument)), name);
    if (isScaled(k)) {
      CudaPrinter printer(4);
      printer.line(fmt::format("return nano::read({}) * nano::read({});", members[k.operands[2]],
                               members[k.operands[3]]));
      text += "  NANO_DEVICE float scale() const {\n" + printer.out + "  }\n";
    }
    text += othersText() + columnsText();
    const std::string totals = fmt::format("nano::Vec<float, {}>", sums.size());
    const std::string opening =
        fmt::format("  NANO_DEVICE {} store(", columnSum      ? cudaType(summandType())
                                               : sums.empty() ? "void"
                                                              : totals);
    text += fmt::format("{}int row, int column, const {} &product,\n{:{}}const Others &{}, const "
                        "Columns &{}) const {{\n",
                        opening, cudaType(epilogue.getArgumentTypes()[0]), "", opening.size(),
                        matrices().empty() ? "" : "others", rows().empty() ? "" : "columns");
    std::string statements;
    if (failed(storeStatements(statements)))
      return failure();
    text += statements + "  }\n";
    if (!sums.empty())
      text += fmt::format("  NANO_DEVICE void storeSums(int row, int part, const {} &totals) const "
                          "{{\n{}  }}\n",
                          totals, sumStatements());
    if (columnSum)
      text += fmt::format("  NANO_DEVICE void storeColumns(int part, int column, const "
                          "nano::Vec<float, 2> &totals) const {{\n{}  }}\n",
                          columnStatements());
    return text + "};\n";
  }

  /// The call, with the operands' names in the kernel.
  std::string call(const CudaPrinter &printer) {
    std::string text = "  Product x;\n";
    for (auto &[argument, name] : members)
      text += fmt::format("  x.{} = {};\n", name, printer.nameOf(k.kernel.getArgument(argument)));
    return text + "  nano::matmul(int(work.begin), maps.map[0], maps.map[1], x);\n";
  }

private:
  bool isConstant(unsigned argument) const { return k.kernel.getParameter(argument).getConstant(); }
  int64_t rankOf(unsigned argument) const {
    return cast<MemRefType>(k.kernel.getArgument(argument).getType()).getRank();
  }
  /// The matrices that the epilogue reads, which are asked for ahead, and what all rows share,
  /// which is read once for many; each argument once.
  SmallVector<int64_t> matrices() const { return ofRank(2); }
  SmallVector<int64_t> rows() const { return ofRank(1); }
  SmallVector<int64_t> ofRank(int64_t rank) const {
    SmallVector<int64_t> arguments;
    for (int64_t i : others())
      if (rankOf(i) == rank && !llvm::is_contained(arguments, i))
        arguments.push_back(i);
    return arguments;
  }
  std::string elementOf(unsigned argument) const {
    return TemplateKernel::elementOf(k.kernel.getArgument(argument));
  }

  /// Others and what brings them.
  std::string othersText() {
    std::string held, loads;
    for (int64_t i : matrices()) {
      held += fmt::format(" nano::Held<{}, {}> {};", elementOf(i), lanes(), members[i]);
      loads += fmt::format("    others.{0} = nano::hold<{1}>({0} + ({2}));\n", members[i], lanes(),
                           offset(i));
    }
    std::string text = fmt::format("  struct Others {{{}}};\n", held.empty() ? "" : held + " ");
    text += loads.empty() ? "  NANO_DEVICE Others load(int, int) const { return {}; }\n"
                          : "  NANO_DEVICE Others load(int row, int column) const {\n    "
                            "Others others;\n" +
                                loads + "    return others;\n  }\n";
    const SmallVector<int64_t> arguments = matrices();
    const bool copies = arguments.size() == 1 && bytesOf(arguments[0]) == 16;
    text += fmt::format("  static constexpr bool copies = {};\n", copies);
    if (copies)
      text += fmt::format("  NANO_DEVICE void copy(int row, int column, Others *to) const {{\n"
                          "    nano::copyAsync<16>(to, {} + ({}));\n  }}\n",
                          members[arguments[0]], offset(arguments[0]));
    return text;
  }
  /// Of the neighbours that the epilogue is called for.
  int64_t bytesOf(unsigned argument) {
    auto type = cast<MemRefType>(k.kernel.getArgument(argument).getType());
    return lanes() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  }
  /// Columns and what reads them.
  std::string columnsText() {
    std::string held, reads;
    for (int64_t i : rows()) {
      held += fmt::format(" nano::Vec<{}, {}> {};", elementOf(i), lanes(), members[i]);
      reads += fmt::format("{}nano::read<{}>({} + column)", reads.empty() ? "" : ", ", lanes(),
                           members[i]);
    }
    if (held.empty())
      return "  struct Columns {};\n  NANO_DEVICE Columns loadColumns(int) const { return {}; }\n";
    return fmt::format("  struct Columns {{{} }};\n  NANO_DEVICE Columns loadColumns(int column) "
                       "const {{\n    return {{{}}};\n  }}\n",
                       held, reads);
  }
  /// True of 8-bit factors, which are followed by their scales.
  static bool isScaled(const TemplateKernel &k) { return k.shape[5] == 1; }
  static int64_t firstOther(const TemplateKernel &k) { return isScaled(k) ? 4 : 2; }
  /// What the epilogue reads, each as often as it has arguments for it.
  ArrayRef<int64_t> others() const { return k.operands.asArrayRef().drop_front(firstOther(k)); }

  /// The results that are added to what is in their place.
  ArrayRef<int64_t> added() const {
    auto results = k.kernel->getAttrOfType<DenseI64ArrayAttr>("nano.added");
    return results ? results.asArrayRef() : ArrayRef<int64_t>();
  }
  /// Of the product, the neighbours of a row that the epilogue is called for.
  VectorType productType() { return cast<VectorType>(epilogue.getArgumentTypes()[0]); }
  int64_t lanes() { return productType().getNumElements(); }
  Type summandType() { return epilogue.getResultTypes()[*columnSum]; }

  /// The elements from a matrix's first to those of a row and column.
  std::string offset(unsigned argument, StringRef column = "column") const {
    const int64_t stride = strideOf(k.kernel.getArgument(argument));
    const bool isShort = k.shape[0] * stride <= INT32_MAX;
    return fmt::format("{} * {} + {}", isShort ? "row" : "int64_t(row)", stride, column.str());
  }

  LogicalResult storeStatements(std::string &text) {
    CudaPrinter printer(4);
    printer.names = names;
    printer.sharesExponentials = k.kernel.getLaunch()->getSharesExponentials();
    std::vector<std::string> returned;
    printer.returned = &returned;
    printer.define(epilogue.getArgument(0), "product");
    for (unsigned i = 1; i < epilogue.getNumArguments(); ++i) {
      const unsigned argument = others()[i - 1];
      const std::string &name = members[argument];
      if (rankOf(argument) == 2) {
        printer.define(epilogue.getArgument(i), "others." + name + ".elements()");
        continue;
      }
      if (rankOf(argument) == 1) {
        printer.define(epilogue.getArgument(i), "columns." + name);
        continue;
      }
      std::string number = printer.names.take(name + "_value");
      printer.line(fmt::format("const auto {} = nano::read({});", number, name));
      printer.define(epilogue.getArgument(i), number);
    }
    if (failed(printer.block(epilogue.getBody().front())))
      return failure();
    for (auto [result, value] : llvm::enumerate(returned)) {
      if (llvm::is_contained(sums, result) || result == columnSum)
        continue;
      std::string stored = value;
      if (k.places(result).size() > 1) {
        stored = printer.names.take("result");
        printer.line(fmt::format("const auto {} = {};", stored, value));
      }
      const char *store = llvm::is_contained(added(), int64_t(result)) ? "addTo" : "store";
      for (int64_t place : k.places(result))
        printer.line(fmt::format("nano::{}<{}>({} + ({}), {});", store, lanes(), members[place],
                                 offset(place), stored));
    }
    if (!sums.empty())
      printer.line(fmt::format(
          "return {{{}}};",
          fmt::join(llvm::map_range(sums, [&](size_t sum) { return returned[sum]; }), ", ")));
    if (columnSum)
      printer.line(fmt::format("return {};", returned[*columnSum]));
    text += printer.out;
    return success();
  }

  /// Stores of the sums of two columns over a part's rows.
  std::string columnStatements() {
    CudaPrinter printer(4);
    for (int64_t place : k.places(*columnSum))
      printer.line(fmt::format("nano::store<2, 8>({} + (part * {} + column), totals);",
                               members[place], strideOf(k.kernel.getArgument(place))));
    return printer.out;
  }

  /// Stores of the sums over the columns of a part.
  std::string sumStatements() {
    CudaPrinter printer(4);
    for (auto [i, result] : llvm::enumerate(sums))
      for (int64_t place : k.places(result))
        printer.line(
            fmt::format("{}[{}] = totals.lane[{}];", members[place], offset(place, "part"), i));
    return printer.out;
  }

  TemplateKernel &k;
  CudaNames names;
  std::map<unsigned, std::string> members; ///< by the argument that they point to
  func::FuncOp epilogue;
  SmallVector<size_t> sums;        ///< the epilogue's results that are numbers, which are added up
  std::optional<size_t> columnSum; ///< the result whose rows are added up
};
} // namespace

bool needsPointer(kernel::FuncOp kernel, unsigned argument) {
  auto name = kernel->getAttrOfType<StringAttr>(templateAttrName);
  return !name || name != "matmul" || ProductStruct::isEpilogues(kernel, argument);
}

FailureOr<std::string> templateDefinitions(kernel::FuncOp kernel, std::string &includes) {
  TemplateKernel k(kernel);
  StringRef name = k.name.getValue();
  if (name == "attention" || name == "attention_grad") {
    includes += "#include \"nano_attention.h\"\n";
    return attentionStruct(k);
  }
  if (name == "scatter_sort" || name == "scatter_sum") {
    includes += "#include \"nano_scatter.h\"\n";
    return scatterStruct(k);
  }
  if (name == "recurrence_totals" || name == "recurrence") {
    includes += "#include \"nano_recurrence.h\"\n";
    return recurrenceStruct(k);
  }
  if (name == "band_scores" || name == "band_product") {
    includes += "#include \"nano_band.h\"\n";
    return bandStruct(k);
  }
  if (name == "transpose") {
    includes += "#include \"nano_transpose.h\"\n";
    if (failed(k.verify(8, 1, 1)))
      return failure();
    return std::string();
  }
  if (name == "custom") {
    includes += "#include \"nano_array.h\"\n";
    return customText(kernel, "nano.cuda", (kernel.getSymName() + ".cu").str(), includes);
  }
  if (name == "matmul") {
    includes += "#include \"nano_matmul.h\"\n";
    ProductStruct product(k);
    if (failed(product.verify()))
      return failure();
    return product.text();
  }
  if (name != "scan")
    return kernel.emitOpError("asks for ") << k.name << ", which is no template";
  includes += "#include \"nano_scan.h\"\n";
  if (failed(k.verify(1, 1, 1)))
    return failure();
  return std::string();
}

FailureOr<std::string> templateCall(kernel::FuncOp kernel, CudaPrinter &printer) {
  TemplateKernel k(kernel);
  StringRef name = k.name.getValue();
  auto pointer = [&](BlockArgument argument) { return printer.nameOf(argument); };
  auto member = [&](StringRef member, BlockArgument argument) {
    return fmt::format("  x.{} = {};\n", member.str(), view(argument, pointer(argument)));
  };
  auto placed = [&](ArrayRef<const char *> members) {
    std::string text;
    for (auto [result, name] : llvm::enumerate(members))
      for (auto [i, place] : llvm::enumerate(k.places(result)))
        text += member(fmt::format("{}[{}]", name, i), kernel.getArgument(place));
    return text;
  };
  auto counts = [&] {
    std::string text;
    for (unsigned i = 0; i < k.results.size(); ++i)
      text += fmt::format(", {}", k.places(i).size());
    return text;
  };
  auto members = [&](ArrayRef<const char *> names) {
    std::string text;
    for (auto [i, name] : llvm::enumerate(names))
      text += member(name, k.operand(i));
    return text;
  };
  if (name == "attention")
    return fmt::format("  nano::AttentionOperands<Attention{}> x;\n", counts()) +
           members({"q", "k", "v", "first", "last"}) + placed({"y", "lse"}) +
           "  nano::attentionForward<Attention>(work.begin, x);\n";
  if (name == "attention_grad")
    return fmt::format("  nano::AttentionGradOperands<Attention{}> x;\n", counts()) +
           members({"q", "k", "v", "first", "last", "lse", "delta", "dy"}) +
           placed({"dq", "dk", "dv"}) + "  nano::attentionBackward<Attention>(work.begin, x);\n";
  if (name == "scatter_sort")
    return fmt::format("  nano::scatterSort<Scatter>(work.begin, {}, {});\n",
                       view(k.operand(0), pointer(k.operand(0))),
                       pointer(kernel.getArgument(k.places(0)[0])));
  if (name == "scatter_sum")
    return fmt::format("  nano::ScatterOperands<Scatter{}> x;\n", counts()) +
           member("x", k.operand(0)) + fmt::format("  x.scratch = {};\n", pointer(k.operand(1))) +
           placed({"y"}) + "  nano::scatterSum<Scatter>(work.begin, x);\n";
  if (name == "recurrence_totals" || name == "recurrence") {
    const bool isTotals = name == "recurrence_totals";
    SmallVector<const char *> read;
    if (k.shape[3])
      read.push_back("a");
    if (k.shape[4])
      read.push_back("b");
    const size_t ins = read.size();
    std::string text =
        fmt::format("  nano::RecurrenceOperands<Recurrence{}> x;\n", isTotals ? "" : counts()) +
        members(read);
    if (isTotals)
      return text + fmt::format("  nano::recurrenceTotals<Recurrence>(work.begin, x, {});\n",
                                pointer(kernel.getArgument(k.places(0)[0])));
    if (size_t(k.operands.size()) > ins)
      text += fmt::format("  x.scratch = {};\n", pointer(k.operand(ins)));
    return text + placed({"h"}) + "  nano::recurrence<Recurrence>(work.begin, x);\n";
  }
  if (name == "band_scores" || name == "band_product")
    return fmt::format("  nano::BandOperands<Band{}> x;\n", counts()) +
           members({"first", "second"}) + placed({"y"}) +
           fmt::format("  nano::{}<Band>(work.begin, x);\n",
                       name == "band_scores" ? "bandScores" : "bandProduct");
  if (name == "transpose")
    return fmt::format("  // Matrices, sizes, and strides of matrices and rows.\n"
                       "  constexpr nano::TransposeShape shape = {{{}}};\n"
                       "  nano::transpose<{}>(work.begin, {}, {}, shape);\n",
                       fmt::join(k.shape.asArrayRef().drop_back(), ", "), k.shape[7] != 0,
                       pointer(k.operand(0)), pointer(kernel.getArgument(k.places(0)[0])));
  if (name == "custom") {
    FailureOr<std::string> call = customCall(kernel, "work.begin", "work.end", pointer);
    return failed(call) ? call : "  " + *call + ";\n";
  }
  if (name == "matmul")
    return ProductStruct(k).call(printer);
  std::string text;
  BlockArgument x = k.operand(0);
  for (int64_t place : k.places(0))
    text +=
        fmt::format("  nano::scan<{}, {}>({}, {}, {}, {}, {});\n", kernel.getLaunch()->getThreads(),
                    k.isOne("nano.maximum"), k.shape[0], pointer(x), strideOf(x),
                    pointer(kernel.getArgument(place)), strideOf(kernel.getArgument(place)));
  return text;
}

} // namespace nano::codegen
