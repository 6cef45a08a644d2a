// The struct that describes an op to its template, and the call, from the kernel's attribute.
#include "codegen/cuda/CudaTemplates.h"

#include "codegen/CustomKernels.h"
#include "ir/kernel/Templates.h"
#include "ir/kernel/shapes/nano_matmul_shape.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <tuple>

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

/// Elements from one row to the next; or with `dim` 1 from one column to the next.
int64_t strideOf(BlockArgument argument, size_t dim = 0) {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  auto type = cast<MemRefType>(argument.getType());
  return succeeded(type.getStridesAndOffset(strides, offset)) && dim < strides.size() ? strides[dim]
                                                                                      : 1;
}

/// A function of a template's struct: its statements from the function beside the kernel.
FailureOr<std::string> functionText(kernel::FuncOp kernel, const kernel::TemplateField &field) {
  auto function =
      kernel->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(field.symbol.getAttr());
  if (!function || function.isDeclaration() || function.getNumArguments() != field.arguments.size())
    return kernel.emitOpError("names ")
           << field.symbol << ", which is no function of a " << field.name;
  CudaPrinter printer(4);
  std::vector<std::string> list;
  for (auto [argument, parameter] : llvm::zip(function.getArguments(), field.arguments)) {
    printer.define(argument, printer.names.take(parameter.str()));
    list.push_back(cudaType(argument.getType()) + " " + parameter.str());
  }
  if (failed(printer.block(function.getBody().front())))
    return failure();
  return fmt::format("static NANO_DEVICE float {}({}) {{\n{}  }}", field.nameInText.str(),
                     fmt::join(list, ", "), printer.out);
}

/// Writes the texts of a template's entry with what stands for its fields: see Kernel_Entry.
class EntryText {
public:
  EntryText(kernel::FuncOp kernel, const kernel::TemplateEntry &entry,
            std::function<std::string(BlockArgument)> pointerTo)
      : kernel(kernel), entry(entry), pointerTo(std::move(pointerTo)) {}

  /// Errors: a name of no field, or of something that fields of its kind do not have; a function
  /// that is not there.
  FailureOr<std::string> expand(StringRef text) {
    std::string all;
    for (StringRef rest = text.trim("\n "); !rest.empty();) {
      StringRef line;
      std::tie(line, rest) = rest.split('\n');
      place = 0;
      do {
        places = 1;
        isLeftOut = false;
        FailureOr<std::string> written = expandLine(line);
        if (failed(written))
          return failure();
        if (!isLeftOut)
          all += *written + "\n";
      } while (++place < places);
    }
    return all;
  }

private:
  FailureOr<std::string> expandLine(StringRef line) {
    auto [written, rest] = line.split('%');
    std::string text = written.str();
    while (!rest.empty()) {
      StringRef name = rest.take_while([](char c) { return isWord(c) || c == '|'; });
      rest = rest.drop_front(name.size());
      if (name == "if" || name == "unless") {
        rest.consume_front("(");
        const StringRef condition = rest.take_while(isWord);
        rest = rest.drop_front(condition.size());
        rest.consume_front(")");
        const kernel::TemplateField *field = find(condition);
        if (!field)
          return unknown(condition);
        isLeftOut |= field->isGiven() != (name == "if");
      } else {
        StringRef what;
        if (rest.starts_with(".")) {
          what = rest.drop_front().take_while(isWord);
          rest = rest.drop_front(1 + what.size());
        }
        FailureOr<std::string> value = valueOf(name, what);
        if (failed(value))
          return failure();
        text += *value;
      }
      std::tie(written, rest) = rest.split('%');
      text += written;
    }
    return text;
  }

  FailureOr<std::string> valueOf(StringRef name, StringRef what) {
    using Kind = kernel::TemplateField::Kind;
    if (name == "threads" && what.empty())
      return fmt::format("{}", kernel.getLaunch()->getThreads());
    const auto [first, second] = name.split('|');
    const kernel::TemplateField *field = find(first);
    if (field && !field->isGiven() && !second.empty())
      field = find(second);
    if (!field)
      return unknown(name);
    if (what == "given")
      return std::string(field->isGiven() ? "true" : "false");
    if (field->kind == Kind::constant && !what.empty())
      return unknown(what);
    if (what == "count")
      return fmt::format("{}", field->positions.size());
    if (!field->isGiven()) {
      isLeftOut = true;
      return std::string();
    }
    if (field->kind == Kind::constant)
      return constantOf(*field);
    if (field->kind == Kind::function)
      return what.empty() ? functionText(kernel, *field) : FailureOr<std::string>(unknown(what));
    if (what == "type")
      return elementOf(kernel.getArgument(field->positions[0]));
    if (field->isList)
      places = field->positions.size();
    BlockArgument argument = kernel.getArgument(field->positions[field->isList ? place : 0]);
    if (what.empty())
      return pointerTo(argument);
    if (what == "view")
      return view(argument, pointerTo(argument));
    if (what == "stride")
      return fmt::format("{}", strideOf(argument));
    if (what == "place" && field->isList)
      return fmt::format("{}", place);
    return unknown(what);
  }

  static std::string constantOf(const kernel::TemplateField &field) {
    if (const DenseI64ArrayAttr *list = std::get_if<DenseI64ArrayAttr>(&field.value))
      return fmt::format("{}", fmt::join(list->asArrayRef(), ", "));
    if (const bool *flag = std::get_if<bool>(&field.value))
      return *flag ? "true" : "false";
    if (const FloatAttr *real = std::get_if<FloatAttr>(&field.value))
      return cudaLiteral(
          FloatAttr::get(Float32Type::get(real->getContext()), real->getValueAsDouble()));
    return std::to_string(std::get<int64_t>(field.value));
  }

  const kernel::TemplateField *find(StringRef name) const {
    const auto *found =
        llvm::find_if(entry.fields, [&](const auto &field) { return field.name == name; });
    return found == entry.fields.end() ? nullptr : found;
  }
  LogicalResult unknown(StringRef name) {
    return kernel.emitOpError("has a template whose text names '")
           << name << "', which is no field";
  }
  static bool isWord(char c) { return llvm::isAlnum(c) || c == '_'; }

  kernel::FuncOp kernel;
  const kernel::TemplateEntry &entry;
  std::function<std::string(BlockArgument)> pointerTo;
  bool isLeftOut = false;       ///< the line
  size_t place = 0, places = 1; ///< of the line's result, and how many it has
};

/// The struct of a product: its sizes, what its epilogue reads and writes, the epilogue.
class ProductStruct {
public:
  ProductStruct(kernel::FuncOp kernel, kernel::ProductAttr product)
      : kernel(kernel), product(product) {
    for (const char *word :
         {"ElementA",   "ElementB",   "Result",      "rows",         "columns",      "inner",
          "transposeA", "transposeB", "blocks",      "sums",         "scale",        "addsColumns",
          "Others",     "load",       "store",       "storeSums",    "storeColumns", "row",
          "column",     "part",       "product",     "others",       "totals",       "Columns",
          "columns",    "copies",     "copy",        "chunks",       "loadColumns",  "othersAt",
          "products",   "second",     "maxima",      "storeLargest", "place",        "largest",
          "turned",     "result",     "storeTurned", "words",        "Row",          "loadRow",
          "ofRow"})
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
        epilogue.getNumArguments() != products() + others().size() ||
        epilogue.getNumResults() != product.getResults().size())
      return kernel.emitOpError("names no epilogue for its operands and results");
    if (DenseI64ArrayAttr results = product.getLargest())
      largest.append(results.asArrayRef().begin(), results.asArrayRef().end());
    for (auto [i, type] : llvm::enumerate(epilogue.getResultTypes()))
      if (!isa<VectorType>(type) && !llvm::is_contained(largest, i))
        sums.push_back(i);
    for (size_t result = 0; result < product.getResults().size(); ++result)
      for (int64_t place : placesOf(result))
        if (isTurned(place))
          turned.push_back({result, place});
    if (!largest.empty() && !sums.empty())
      return kernel.emitOpError("sums along rows beside a maximum");
    if (IntegerAttr result = product.getColumnSum()) {
      columnSum = size_t(result.getInt());
      if (!sums.empty())
        return kernel.emitOpError("sums along rows and columns");
    }
    if (products() > 1 && (!sums.empty() || !matrices().empty()))
      return kernel.emitOpError("sums of two products, or reads other matrices beside them");
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
    std::string text = fmt::format(
        "\nstruct Product {{\n  using ElementA = {};\n  using ElementB = {};\n"
        "  using Result = {};\n"
        "  static constexpr int rows = {}, columns = {}, inner = {}, blocks = {}, "
        "sums = {};\n  static constexpr int products = {};\n"
        "  static constexpr bool transposeA = {}, transposeB = {}, addsColumns = {};\n"
        "  static constexpr int maxima = {}, turned = {};\n",
        elementOf(product.getA()), elementOf(product.getB()),
        cudaType(productType().getElementType()), product.getRows(), product.getColumns(),
        product.getInner(), product.getBlocks(), sums.size(), products(), product.getTransposeA(),
        product.getTransposeB(), columnSum.has_value(), largest.size(), turned.size());
    for (auto &[argument, name] : members)
      text += fmt::format("  {}{} *{};\n", isConstant(argument) ? "const " : "",
                          elementOf(argument), name);
    if (const ArrayRef<int64_t> scales = product.getScales().asArrayRef(); !scales.empty()) {
      CudaPrinter printer(4);
      auto scaleOf = [&](size_t i) {
        return fmt::format("nano::read({}) * nano::read({})", members[scales[2 * i]],
                           members[scales[2 * i + 1]]);
      };
      if (products() > 1)
        printer.line(fmt::format("return product == 0 ? {} : {};", scaleOf(0), scaleOf(1)));
      else
        printer.line(fmt::format("return {};", scaleOf(0)));
      text += fmt::format("  NANO_DEVICE float scale(int{}) const {{\n{}  }}\n",
                          products() > 1 ? " product" : "", printer.out);
    }
    text += othersText() + columnsText() + rowText();
    const std::string totals = fmt::format("nano::Vec<float, {}>", sums.size());
    const std::string maxima = fmt::format("nano::Vec<float, {}>", largest.size());
    const std::string opening = fmt::format(
        "  NANO_DEVICE {} store(", columnSum && !largest.empty()
                                       ? fmt::format("nano::SummandsAndLargest<{}>", largest.size())
                                   : columnSum        ? cudaType(summandType())
                                   : !largest.empty() ? maxima
                                   : sums.empty()     ? "void"
                                                      : totals);
    const std::string elements = cudaType(productType()), indent(opening.size(), ' ');
    text += fmt::format("{}int row, int column, const {} &product,\n{}", opening, elements, indent);
    if (products() > 1)
      text += fmt::format("const {} &second,\n{}", elements, indent);
    text += fmt::format("const Others &{}, const Columns &{}", matrices().empty() ? "" : "others",
                        rows().empty() ? "" : "columns");
    if (!numbersOfRows().empty())
      text += fmt::format(",\n{}const Row &ofRow", indent);
    if (!turned.empty())
      text += fmt::format(",\n{}nano::Vec<uint32_t, {}> (&turned)[{}]", indent, lanes() / 4,
                          turned.size());
    text += ") const {\n";
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
    if (!largest.empty())
      text += fmt::format("  NANO_DEVICE void storeLargest(int part, int place, const {} &largest) "
                          "const {{\n{}  }}\n",
                          maxima, largestStatements());
    if (!turned.empty())
      text += fmt::format("  NANO_DEVICE void storeTurned(int result, int row, int column,\n"
                          "                               const nano::Vec<uint32_t, 4> &words) "
                          "const {{\n{}  }}\n",
                          turnedStatements());
    return text + "};\n";
  }

  /// The call, with the operands' names in the kernel.
  std::string call(const CudaPrinter &printer) {
    std::string text = "  Product x;\n";
    for (auto &[argument, name] : members)
      text += fmt::format("  x.{} = {};\n", name, printer.nameOf(kernel.getArgument(argument)));
    return text + fmt::format("  nano::matmul(int(work.begin), maps.map[0], maps.map[1], {}x);\n",
                              products() > 1 ? "maps.map[2], " : "");
  }

private:
  size_t products() { return product.getSecond() ? 2 : 1; }
  bool isConstant(unsigned argument) { return kernel.getParameter(argument).getConstant(); }
  int64_t rankOf(unsigned argument) { return kernel.getBufferType(argument).getRank(); }
  /// The matrices that the epilogue reads, which are asked for ahead, what all rows share, which is
  /// read once for many, and what a row's elements share; each argument once.
  SmallVector<int64_t> matrices() {
    return othersOf([&](int64_t argument, Type) { return rankOf(argument) == 2; });
  }
  SmallVector<int64_t> rows() {
    return othersOf([&](int64_t argument, Type type) {
      return rankOf(argument) == 1 && isa<VectorType>(type);
    });
  }
  SmallVector<int64_t> numbersOfRows() {
    return othersOf([&](int64_t argument, Type type) {
      return rankOf(argument) == 1 && !isa<VectorType>(type);
    });
  }
  SmallVector<int64_t> othersOf(function_ref<bool(int64_t, Type)> isAsked) {
    SmallVector<int64_t> arguments;
    for (auto [argument, type] :
         llvm::zip_equal(others(), epilogue.getArgumentTypes().drop_front(products())))
      if (isAsked(argument, type) && !llvm::is_contained(arguments, argument))
        arguments.push_back(argument);
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
    return text + copiesText();
  }
  /// How operands of the epilogue come by copies: where there are few, so that several pieces' are
  /// on their way, and each is as wide as such a copy.
  std::string copiesText() {
    constexpr size_t mostCopies = 2;
    const SmallVector<int64_t> arguments = matrices();
    const bool copies = arguments.size() <= mostCopies &&
                        llvm::all_of(arguments, [&](int64_t i) { return bytesOf(i) == 16; });
    std::string text =
        fmt::format("  static constexpr int copies = {};\n", copies ? arguments.size() : 0);
    if (!copies || arguments.empty())
      return text;
    std::string starts, reads;
    for (auto [i, argument] : llvm::enumerate(arguments)) {
      const std::string place = fmt::format("{}", 32 * i);
      starts += fmt::format("    nano::copyAsync<16>(chunks + {}, {} + ({}));\n", place,
                            members[argument], offset(argument));
      reads += fmt::format("    others.{}.words = chunks[{}];\n", members[argument], place);
    }
    return text +
           fmt::format(
               "  NANO_DEVICE void copy(int row, int column, nano::Vec<uint32_t, 4> *chunks) const "
               "{{\n{}  }}\n"
               "  NANO_DEVICE static Others othersAt(const nano::Vec<uint32_t, 4> *chunks) {{\n"
               "    Others others;\n{}    return others;\n  }}\n",
               starts, reads);
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
  /// Row and what reads it, where there is one.
  std::string rowText() {
    std::string held, reads;
    for (int64_t i : numbersOfRows()) {
      held += fmt::format(" {} {};", elementOf(i), members[i]);
      reads += fmt::format("{}nano::read({} + row)", reads.empty() ? "" : ", ", members[i]);
    }
    if (held.empty())
      return "";
    return fmt::format("  struct Row {{{} }};\n  NANO_DEVICE Row loadRow(int row) const {{\n"
                       "    return {{{}}};\n  }}\n",
                       held, reads);
  }
  /// What the epilogue reads, each as often as it has arguments for it.
  ArrayRef<int64_t> others() { return product.getOthers().asArrayRef(); }
  /// Where a result goes.
  ArrayRef<int64_t> placesOf(size_t result) {
    return cast<DenseI64ArrayAttr>(product.getResults()[result]).asArrayRef();
  }

  /// True for a place whose rows lie as columns.
  bool isTurned(int64_t place) {
    return rankOf(unsigned(place)) == 2 && strideOf(kernel.getArgument(place), 0) == 1 &&
           strideOf(kernel.getArgument(place), 1) > 1;
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
    if (products() > 1)
      printer.define(epilogue.getArgument(1), "second");
    for (unsigned i = products(); i < epilogue.getNumArguments(); ++i) {
      const unsigned argument = others()[i - products()];
      const std::string &name = members[argument];
      if (rankOf(argument) == 2) {
        printer.define(epilogue.getArgument(i), "others." + name + ".elements()");
        continue;
      }
      if (rankOf(argument) == 1) {
        const bool isOfRows = llvm::is_contained(numbersOfRows(), int64_t(argument));
        printer.define(epilogue.getArgument(i), (isOfRows ? "ofRow." : "columns.") + name);
        continue;
      }
      std::string number = printer.names.take(name + "_value");
      printer.line(fmt::format("const auto {} = nano::read({});", number, name));
      printer.define(epilogue.getArgument(i), number);
    }
    if (failed(printer.block(epilogue.getBody().front())))
      return failure();
    for (auto [result, value] : llvm::enumerate(returned)) {
      if (llvm::is_contained(sums, result) || result == columnSum ||
          llvm::is_contained(largest, result))
        continue;
      std::string stored = value;
      if (placesOf(result).size() > 1 || isTurned(placesOf(result)[0])) {
        stored = printer.names.take("result");
        printer.line(fmt::format("const auto {} = {};", stored, value));
      }
      // Tiles of the factors are read again by others soon, not so what the epilogue writes.
      const char *store = product.isAdded(result) ? "addTo" : "storeStreaming";
      for (int64_t place : placesOf(result))
        if (isTurned(place))
          printer.line(fmt::format("turned[{}] = nano::wordsOf<uint32_t>({});",
                                   llvm::find(turned, std::pair(result, place)) - turned.begin(),
                                   stored));
        else
          printer.line(fmt::format("nano::{}<{}>({} + ({}), {});", store, lanes(), members[place],
                                   offset(place), stored));
    }
    const auto listOf = [&](ArrayRef<size_t> results) {
      return fmt::format(
          "{{{}}}",
          fmt::join(llvm::map_range(results, [&](size_t result) { return returned[result]; }),
                    ", "));
    };
    if (columnSum && !largest.empty())
      printer.line(fmt::format("return {{{}, {}}};", returned[*columnSum], listOf(largest)));
    else if (columnSum)
      printer.line(fmt::format("return {};", returned[*columnSum]));
    else if (!sums.empty() || !largest.empty())
      printer.line(fmt::format("return {};", listOf(sums.empty() ? largest : sums)));
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

  /// Stores of the largest of a block.
  std::string largestStatements() {
    CudaPrinter printer(4);
    for (auto [i, result] : llvm::enumerate(largest))
      for (int64_t place : placesOf(result))
        printer.line(fmt::format("{}[part * {} + place] = largest.lane[{}];", members[place],
                                 strideOf(kernel.getArgument(place)), i));
    return printer.out;
  }

  /// Stores of rows of a column of the result of that number.
  std::string turnedStatements() {
    CudaPrinter printer(4);
    for (auto [i, result] : llvm::enumerate(turned)) {
      const int64_t stride = strideOf(kernel.getArgument(result.second), 1);
      const bool isShort = product.getColumns() * stride <= INT32_MAX;
      printer.line(fmt::format("{}nano::storeStreaming<{}>({} + ({} * {} + row), "
                               "nano::elementsOf<{}>(words));",
                               turned.size() == 1      ? ""
                               : i == 0                ? "if (result == 0) "
                               : i + 1 < turned.size() ? fmt::format("else if (result == {}) ", i)
                                                       : "else ",
                               nano::MatmulTiles::sumRows, members[result.second],
                               isShort ? "column" : "int64_t(column)", stride,
                               elementOf(unsigned(result.second))));
    }
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
  SmallVector<size_t> largest;     ///< those that are the largest of blocks
  SmallVector<std::pair<size_t, int64_t>> turned; ///< results and places where they lie transposed
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
    // Pointers are known in the call alone.
    FailureOr<std::string> text = EntryText(kernel, *entry, [](BlockArgument) {
                                    return std::string();
                                  }).expand(entry->definition);
    return failed(text) || text->empty() ? text : "\n" + *text;
  }
  return llvm::TypeSwitch<Attribute, Text>(kernel.getInstantiatesAttr())
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
      });
}

FailureOr<std::string> templateCall(kernel::FuncOp kernel, CudaPrinter &printer) {
  using Text = FailureOr<std::string>;
  const auto nameOf = [&](BlockArgument argument) { return printer.nameOf(argument); };
  if (const std::optional<kernel::TemplateEntry> entry =
          kernel::entryOf(kernel.getInstantiatesAttr())) {
    FailureOr<std::string> text = EntryText(kernel, *entry, nameOf).expand(entry->call);
    return failed(text) ? text : "  " + *text;
  }
  return llvm::TypeSwitch<Attribute, Text>(kernel.getInstantiatesAttr())
      .Case([&](kernel::CustomAttr) -> Text {
        Text call = customCall(kernel, "work.begin", "work.end", nameOf);
        return failed(call) ? call : "  " + *call + ";\n";
      })
      .Case([&](kernel::ProductAttr product) -> Text {
        return ProductStruct(kernel, product).call(printer);
      });
}

} // namespace nano::codegen
