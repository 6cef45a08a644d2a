// The struct that describes an op to its template, and the call, from the kernel's attribute.
#include "codegen/cuda/CudaTemplates.h"

#include "codegen/CustomKernels.h"
#include "ir/kernel/Templates.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

#include <map>

using namespace mlir;

namespace nano::codegen {

namespace {
std::string elementOf(BlockArgument argument) {
  return cudaType(cast<MemRefType>(argument.getType()).getElementType());
}

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

/// A score function of the struct: its statements from the function of that name.
LogicalResult scoreText(kernel::FuncOp kernel, FlatSymbolRefAttr symbol, StringRef name,
                        ArrayRef<const char *> parameters, std::string &text) {
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

/// Of attention or its gradient.
template <typename Template>
FailureOr<std::string> attentionStruct(kernel::FuncOp kernel, Template x) {
  const FlatSymbolRefAttr score = x.getScore();
  std::string text = fmt::format(
      "\nstruct Attention {{\n  using Element = {};\n  static constexpr int tokens = {}, heads = "
      "{}, keyHeads = {}, headSize = {}, valueSize = {},\n                       multiprocessors = "
      "{};\n  static "
      "constexpr bool vectorRows = {};\n"
      "  static constexpr float scale = {};\n  static constexpr bool hasScore = {};\n",
      elementOf(kernel.getArgument(x.getQ())), x.getTokens(), x.getHeads(), x.getKeyHeads(),
      x.getHeadSize(), x.getValueSize(), x.getMultiprocessors(), x.getVectorRows(),
      cudaLiteral(
          FloatAttr::get(Float32Type::get(x.getContext()), x.getScale().getValueAsDouble())),
      bool(score));
  if (score && failed(scoreText(kernel, score, "score", {"s", "query", "key", "head"}, text)))
    return failure();
  if constexpr (std::is_same_v<Template, kernel::AttentionGradAttr>)
    if (score && failed(scoreText(kernel, x.getScoreGrad(), "scoreGrad",
                                  {"s", "query", "key", "head", "gradient"}, text)))
      return failure();
  return text + "};\n";
}

std::string scatterStruct(const std::string &types, int64_t tokens, int64_t rows, int64_t columns,
                          bool vectorRows) {
  return fmt::format(
      "\nstruct Scatter {{\n{}  static constexpr int tokens = {}, rows = {}, columns = "
      "{};\n  static constexpr bool vectorRows = {};\n}};\n",
      types, tokens, rows, columns, vectorRows);
}
std::string scatterSumStruct(kernel::FuncOp kernel, kernel::ScatterSumAttr x) {
  return scatterStruct(fmt::format("  using Element = {};\n  using Result = {};\n",
                                   elementOf(kernel.getArgument(x.getX())),
                                   elementOf(kernel.getArgument(x.getY()[0]))),
                       x.getTokens(), x.getRows(), x.getColumns(), x.getVectorRows());
}

std::string recurrenceStruct(kernel::FuncOp kernel, kernel::RecurrenceAttr x) {
  const FloatAttr initial = x.getInitial();
  return fmt::format(
      "\nstruct Recurrence {{\n  using Element = {};\n  static constexpr int sequences = {}, "
      "length = {}, channels = {};\n  static constexpr int vector = {};\n  static constexpr bool "
      "hasFactor = {}, hasTerm = {}, "
      "reverse = {}, adjoint = {};\n  static constexpr float initial = {};\n}};\n",
      elementOf(kernel.getArgument(x.getA() ? *x.getA() : *x.getB())), x.getSequences(),
      x.getLength(), x.getChannels(), x.getVector(), x.getA().has_value(), x.getB().has_value(),
      x.getReverse(), x.getAdjoint(),
      cudaLiteral(
          FloatAttr::get(Float32Type::get(initial.getContext()), initial.getValueAsDouble())));
}
template <typename Template> std::string bandStruct(kernel::FuncOp kernel, Template x) {
  return fmt::format(
      "\nstruct Band {{\n  using First = {};\n  using Second = {};\n  using Result = {};\n  static "
      "constexpr int tokens = {}, heads = {}, size = {}, width = {};\n  static constexpr bool "
      "transpose = {}, onMatrices = {};\n}};\n",
      elementOf(kernel.getArgument(x.getFirst())), elementOf(kernel.getArgument(x.getSecond())),
      elementOf(kernel.getArgument(x.getY()[0])), x.getTokens(), x.getHeads(), x.getSize(),
      x.getWidth(), x.getTranspose(), x.getOnMatrices());
}

/// The struct of a product: its sizes, what its epilogue reads and writes, the epilogue.
class ProductStruct {
public:
  ProductStruct(kernel::FuncOp kernel, kernel::ProductAttr product)
      : kernel(kernel), product(product) {
    for (const char *word :
         {"ElementA",   "ElementB",   "Result",  "rows",      "columns",      "inner",
          "transposeA", "transposeB", "blocks",  "sums",      "scale",        "addsColumns",
          "Others",     "load",       "store",   "storeSums", "storeColumns", "row",
          "column",     "part",       "product", "others",    "totals",       "Columns",
          "columns",    "copies",     "copy",    "to",        "loadColumns"})
      names.take(word);
    for (unsigned i = 0; i < kernel.getNumBuffers(); ++i)
      if (isEpilogues(product, i)) {
        const StringRef name = kernel.getParameter(i).getName();
        members[i] = names.take(name.empty() ? fmt::format("operand_{}", i) : name.str());
      }
  }

  LogicalResult verify() {
    if (FlatSymbolRefAttr symbol = product.getEpilogue())
      epilogue = kernel->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol.getAttr());
    if (!epilogue || epilogue.isDeclaration() ||
        epilogue.getNumArguments() != 1 + others().size() ||
        epilogue.getNumResults() != product.getResults().size())
      return kernel.emitOpError("names no epilogue for its operands and results");
    for (auto [i, type] : llvm::enumerate(epilogue.getResultTypes()))
      if (!isa<VectorType>(type))
        sums.push_back(i);
    if (IntegerAttr result = product.getColumnSum()) {
      columnSum = size_t(result.getInt());
      if (!sums.empty())
        return kernel.emitOpError("sums along rows and columns");
    }
    return success();
  }

  /// True for buffers that the epilogue reads or writes; the factors are known by their tensor
  /// maps.
  static bool isEpilogues(kernel::ProductAttr product, unsigned buffer) {
    return llvm::is_contained(product.getScales().asArrayRef(), int64_t(buffer)) ||
           llvm::is_contained(product.getOthers().asArrayRef(), int64_t(buffer)) ||
           llvm::any_of(product.getWrittenPositions(), [&](const SmallVector<int64_t> &places) {
             return llvm::is_contained(places, int64_t(buffer));
           });
  }

  FailureOr<std::string> text() {
    std::string text =
        fmt::format("\nstruct Product {{\n  using ElementA = {};\n  using ElementB = {};\n"
                    "  using Result = {};\n"
                    "  static constexpr int rows = {}, columns = {}, inner = {}, blocks = {}, "
                    "sums = {};\n"
                    "  static constexpr bool transposeA = {}, transposeB = {}, addsColumns = {};\n",
                    elementOf(product.getA()), elementOf(product.getB()),
                    cudaType(productType().getElementType()), product.getRows(),
                    product.getColumns(), product.getInner(), product.getBlocks(), sums.size(),
                    product.getTransposeA(), product.getTransposeB(), columnSum.has_value());
    for (auto &[argument, name] : members)
      text += fmt::format("  {}{} *{};\n", isConstant(argument) ? "const " : "",
                          elementOf(argument), name);
    if (const ArrayRef<int64_t> scales = product.getScales().asArrayRef(); !scales.empty()) {
      CudaPrinter printer(4);
      printer.line(fmt::format("return nano::read({}) * nano::read({});", members[scales[0]],
                               members[scales[1]]));
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
      text += fmt::format("  x.{} = {};\n", name, printer.nameOf(kernel.getArgument(argument)));
    return text + "  nano::matmul(int(work.begin), maps.map[0], maps.map[1], x);\n";
  }

private:
  bool isConstant(unsigned argument) { return kernel.getParameter(argument).getConstant(); }
  int64_t rankOf(unsigned argument) { return kernel.getBufferType(argument).getRank(); }
  /// The matrices that the epilogue reads, which are asked for ahead, and what all rows share,
  /// which is read once for many; each argument once.
  SmallVector<int64_t> matrices() { return ofRank(2); }
  SmallVector<int64_t> rows() { return ofRank(1); }
  SmallVector<int64_t> ofRank(int64_t rank) {
    SmallVector<int64_t> arguments;
    for (int64_t i : others())
      if (rankOf(i) == rank && !llvm::is_contained(arguments, i))
        arguments.push_back(i);
    return arguments;
  }
  std::string elementOf(unsigned argument) {
    return codegen::elementOf(kernel.getArgument(argument));
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
    return lanes() * llvm::divideCeil(kernel.getBufferType(argument).getElementTypeBitWidth(), 8);
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
  /// What the epilogue reads, each as often as it has arguments for it.
  ArrayRef<int64_t> others() { return product.getOthers().asArrayRef(); }
  /// Where a result goes.
  ArrayRef<int64_t> placesOf(size_t result) {
    return cast<DenseI64ArrayAttr>(product.getResults()[result]).asArrayRef();
  }

  /// Of the product, the neighbours of a row that the epilogue is called for.
  VectorType productType() { return cast<VectorType>(epilogue.getArgumentTypes()[0]); }
  int64_t lanes() { return productType().getNumElements(); }
  Type summandType() { return epilogue.getResultTypes()[*columnSum]; }

  /// The elements from a matrix's first to those of a row and column.
  std::string offset(unsigned argument, StringRef column = "column") {
    const int64_t stride = strideOf(kernel.getArgument(argument));
    const bool isShort = product.getRows() * stride <= INT32_MAX;
    return fmt::format("{} * {} + {}", isShort ? "row" : "int64_t(row)", stride, column.str());
  }

  LogicalResult storeStatements(std::string &text) {
    CudaPrinter printer(4);
    printer.names = names;
    printer.sharesExponentials = kernel.getLaunch()->getSharesExponentials();
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
      if (placesOf(result).size() > 1) {
        stored = printer.names.take("result");
        printer.line(fmt::format("const auto {} = {};", stored, value));
      }
      const char *store = product.isAdded(result) ? "addTo" : "store";
      for (int64_t place : placesOf(result))
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
    for (int64_t place : placesOf(*columnSum))
      printer.line(fmt::format("nano::store<2, 8>({} + (part * {} + column), totals);",
                               members[place], strideOf(kernel.getArgument(place))));
    return printer.out;
  }

  /// Stores of the sums over the columns of a part.
  std::string sumStatements() {
    CudaPrinter printer(4);
    for (auto [i, result] : llvm::enumerate(sums))
      for (int64_t place : placesOf(result))
        printer.line(
            fmt::format("{}[{}] = totals.lane[{}];", members[place], offset(place, "part"), i));
    return printer.out;
  }

  kernel::FuncOp kernel;
  kernel::ProductAttr product;
  CudaNames names;
  std::map<unsigned, std::string> members; ///< by the argument that they point to
  func::FuncOp epilogue;
  SmallVector<size_t> sums;        ///< the epilogue's results that are numbers, which are added up
  std::optional<size_t> columnSum; ///< the result whose rows are added up
};
} // namespace

bool needsPointer(kernel::FuncOp kernel, unsigned argument) {
  auto product = dyn_cast_or_null<kernel::ProductAttr>(kernel.getInstantiatesAttr());
  return !product || ProductStruct::isEpilogues(product, argument);
}

FailureOr<std::string> templateDefinitions(kernel::FuncOp kernel, std::string &includes) {
  using Text = FailureOr<std::string>;
  auto include = [&](StringRef header) {
    includes += fmt::format("#include \"{}\"\n", header.str());
  };
  if (const std::optional<kernel::TemplateEntry> entry =
          kernel::entryOf(kernel.getInstantiatesAttr())) {
    include(entry->header);
    return std::string();
  }
  return llvm::TypeSwitch<Attribute, Text>(kernel.getInstantiatesAttr())
      .Case<kernel::AttentionAttr, kernel::AttentionGradAttr>([&](auto attention) {
        include("nano_attention.h");
        return attentionStruct(kernel, attention);
      })
      .Case([&](kernel::ScatterSortAttr sort) -> Text {
        include("nano_scatter.h");
        // The sort does not depend on the columns.
        return scatterStruct("", sort.getTokens(), sort.getRows(), 8, true);
      })
      .Case([&](kernel::ScatterSumAttr sum) -> Text {
        include("nano_scatter.h");
        return scatterSumStruct(kernel, sum);
      })
      .Case([&](kernel::RecurrenceAttr recurrence) -> Text {
        include("nano_recurrence.h");
        return recurrenceStruct(kernel, recurrence);
      })
      .Case<kernel::BandScoresAttr, kernel::BandProductAttr>([&](auto band) -> Text {
        include("nano_band.h");
        return bandStruct(kernel, band);
      })
      .Case([&](kernel::CustomAttr custom) {
        include("nano_array.h");
        return customText(kernel, custom.getCuda(), "CUDA", (kernel.getSymName() + ".cu").str(),
                          includes);
      })
      .Case([&](kernel::ProductAttr attribute) -> Text {
        include("nano_matmul.h");
        ProductStruct product(kernel, attribute);
        if (failed(product.verify()))
          return failure();
        return product.text();
      })
      .Case([&](kernel::ScanAttr) -> Text {
        include("nano_scan.h");
        return std::string();
      });
}

namespace {
/// Members of a template's struct of operands: "  x.q = {q, 2304, 128};\n".
class Members {
public:
  Members(kernel::FuncOp kernel, const CudaPrinter &printer) : kernel(kernel), printer(printer) {}

  std::string pointer(int64_t buffer) { return printer.nameOf(kernel.getArgument(buffer)); }
  std::string viewOf(int64_t buffer) { return view(kernel.getArgument(buffer), pointer(buffer)); }
  std::string one(const std::string &name, int64_t buffer) {
    return fmt::format("  x.{} = {};\n", name, viewOf(buffer));
  }
  /// The members, and of results the places, in the order of their names.
  std::string all(ArrayRef<const char *> read, ArrayRef<const char *> written) {
    auto instance = *kernel.getInstantiates();
    std::string text;
    for (auto [name, buffer] : llvm::zip(read, instance.getReadPositions()))
      text += one(name, buffer);
    for (auto [name, places] : llvm::zip(written, instance.getWrittenPositions()))
      for (auto [i, place] : llvm::enumerate(places))
        text += one(fmt::format("{}[{}]", name, i), place);
    return text;
  }
  /// ", 1, 2": of each result the number of places that it goes to.
  std::string counts() {
    std::string text;
    for (const SmallVector<int64_t> &places : kernel.getInstantiates()->getWrittenPositions())
      text += fmt::format(", {}", places.size());
    return text;
  }

private:
  kernel::FuncOp kernel;
  const CudaPrinter &printer;
};
} // namespace

/// The entry's call with its values in the place of %names. Errors: a name of none.
static FailureOr<std::string> callText(kernel::FuncOp kernel, const kernel::TemplateEntry &entry) {
  std::string text;
  auto [before, rest] = entry.call.trim("\n ").split('%');
  text = "  " + before.str();
  while (!rest.empty()) {
    const StringRef name = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    const auto value =
        llvm::find_if(entry.values, [&](const auto &each) { return each.first == name; });
    if (value == entry.values.end())
      return kernel.emitOpError("has a template whose call names no field with '%") << name << "'";
    text += value->second;
    std::tie(before, rest) = rest.drop_front(name.size()).split('%');
    text += before;
  }
  return text + "\n";
}

FailureOr<std::string> templateCall(kernel::FuncOp kernel, CudaPrinter &printer) {
  using Text = FailureOr<std::string>;
  Members members(kernel, printer);
  if (std::optional<kernel::TemplateEntry> entry = kernel::entryOf(kernel.getInstantiatesAttr())) {
    for (auto &[name, buffer] : entry->buffers)
      entry->values.emplace_back(name, members.pointer(buffer));
    return callText(kernel, *entry);
  }
  return llvm::TypeSwitch<Attribute, Text>(kernel.getInstantiatesAttr())
      .Case([&](kernel::AttentionAttr) -> Text {
        return fmt::format("  nano::AttentionOperands<Attention{}> x;\n", members.counts()) +
               members.all({"q", "k", "v", "first", "last"}, {"y", "lse"}) +
               "  nano::attentionForward<Attention>(work.begin, x);\n";
      })
      .Case([&](kernel::AttentionGradAttr grad) -> Text {
        return fmt::format("  nano::AttentionGradOperands<Attention, {}, {}, {}> x;\n",
                           grad.getDq().size(), grad.getDk().size(), grad.getDv().size()) +
               members.all({"q", "k", "v", "first", "last", "lse", "delta", "dy"},
                           {"dq", "dk", "dv"}) +
               (grad.getPartial() ? fmt::format("  x.partial = {};\n  x.counts = {};\n"
                                                "  nano::attentionBackwardInChain<Attention>(x);\n",
                                                members.pointer(*grad.getPartial()),
                                                members.pointer(*grad.getCounts()))
                                  : "  nano::attentionBackward<Attention>(work.begin, x);\n");
      })
      .Case([&](kernel::ScatterSortAttr sort) -> Text {
        return fmt::format("  nano::scatterSort<Scatter>(work.begin, {}, {});\n",
                           members.viewOf(sort.getIds()), members.pointer(sort.getSorted()));
      })
      .Case([&](kernel::ScatterSumAttr sum) -> Text {
        return fmt::format("  nano::ScatterOperands<Scatter{}> x;\n", members.counts()) +
               members.one("x", sum.getX()) +
               fmt::format("  x.scratch = {};\n", members.pointer(sum.getSorted())) +
               members.all({}, {"y"}) + "  nano::scatterSum<Scatter>(work.begin, x);\n";
      })
      .Case([&](kernel::RecurrenceAttr x) -> Text {
        // The factors and terms, as far as there are any.
        return fmt::format("  nano::RecurrenceOperands<Recurrence{}> x;\n", members.counts()) +
               (x.getA() ? members.one("a", *x.getA()) : "") +
               (x.getB() ? members.one("b", *x.getB()) : "") + members.all({}, {"h"}) +
               "  nano::recurrence<Recurrence>(work.begin, x);\n";
      })
      .Case<kernel::BandScoresAttr, kernel::BandProductAttr>([&](auto band) -> Text {
        constexpr bool isScores = std::is_same_v<decltype(band), kernel::BandScoresAttr>;
        return fmt::format("  nano::BandOperands<Band{}> x;\n", members.counts()) +
               members.all({"first", "second"}, {"y"}) +
               fmt::format("  nano::{}<Band>(work.begin, x);\n",
                           isScores ? "bandScores" : "bandProduct");
      })
      .Case([&](kernel::CustomAttr) -> Text {
        Text call = customCall(kernel, "work.begin", "work.end",
                               [&](BlockArgument argument) { return printer.nameOf(argument); });
        return failed(call) ? call : "  " + *call + ";\n";
      })
      .Case([&](kernel::ProductAttr product) -> Text {
        return ProductStruct(kernel, product).call(printer);
      })
      .Case([&](kernel::ScanAttr scan) -> Text {
        std::string text;
        for (int64_t place : scan.getY().asArrayRef())
          text +=
              fmt::format("  nano::scan<{}, {}>({}, {}, {}, {}, {});\n",
                          kernel.getLaunch()->getThreads(), scan.getMaximum(), scan.getSize(),
                          members.pointer(scan.getX()), strideOf(kernel.getArgument(scan.getX())),
                          members.pointer(place), strideOf(kernel.getArgument(place)));
        return text;
      });
}

} // namespace nano::codegen
