// Registration of the `kernel` dialect, the text form of its functions, and what its verifiers
// refuse.
#include "ir/kernel/Kernel.h"

#include "ir/kernel/Templates.h"
#include "ir/kernel/shapes/nano_attention_launch.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include "ir/kernel/KernelOpsDialect.cpp.inc"
#include "ir/kernel/KernelOpsEnums.cpp.inc"

#include "ir/kernel/KernelAttrInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/kernel/KernelAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "ir/kernel/KernelOps.cpp.inc"

using namespace mlir;
using namespace nano::kernel;

void KernelDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ir/kernel/KernelOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/kernel/KernelAttrs.cpp.inc"
      >();
}

//===- Parameters ---------------------------------------------------------===//

/// What stands behind a parameter's access: ` as "x" aligned 16 constant picks 4`.
struct ParameterDetails {
  std::string name;
  int64_t alignment = 0, picks = 0;
  bool isConstant = false;
};

static ParseResult parseDetails(AsmParser &parser, ParameterDetails &details) {
  if (succeeded(parser.parseOptionalKeyword("as")) && parser.parseString(&details.name))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("aligned")) && parser.parseInteger(details.alignment))
    return failure();
  details.isConstant = succeeded(parser.parseOptionalKeyword("constant"));
  if (succeeded(parser.parseOptionalKeyword("picks")) && parser.parseInteger(details.picks))
    return failure();
  return success();
}

static void printDetails(AsmPrinter &printer, ParameterAttr parameter) {
  if (!parameter.getName().empty()) {
    printer << " as ";
    printer.printString(parameter.getName());
  }
  if (parameter.getAlignment())
    printer << " aligned " << parameter.getAlignment();
  if (parameter.getConstant())
    printer << " constant";
  if (parameter.getPicks())
    printer << " picks " << parameter.getPicks();
}

static ParameterAttr makeParameter(AsmParser &parser, SMLoc at, Access access,
                                   const ParameterDetails &details) {
  return ParameterAttr::getChecked([&] { return parser.emitError(at); }, parser.getContext(),
                                   access, details.name, details.alignment, details.isConstant,
                                   details.picks);
}

Attribute ParameterAttr::parse(AsmParser &parser, Type) {
  const SMLoc at = parser.getCurrentLocation();
  StringRef word;
  ParameterDetails details;
  if (parser.parseLess() || parser.parseKeyword(&word))
    return {};
  const std::optional<Access> access = symbolizeAccess(word);
  if (!access) {
    parser.emitError(at) << "expected read, write, read_write or add";
    return {};
  }
  if (parseDetails(parser, details) || parser.parseGreater())
    return {};
  return makeParameter(parser, at, *access, details);
}

void ParameterAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyAccess(getAccess());
  printDetails(printer, *this);
  printer << '>';
}

LogicalResult ParameterAttr::verify(function_ref<InFlightDiagnostic()> emitError, Access access,
                                    StringRef name, int64_t alignment, bool constant,
                                    int64_t picks) {
  if (alignment < 0 || (alignment > 0 && !llvm::isPowerOf2_64(uint64_t(alignment))))
    return emitError() << "an alignment of " << alignment << " bytes is no power of two";
  if (picks < 0)
    return emitError() << picks << " elements an iteration: must be at least 0";
  if (constant && writes(access))
    return emitError() << "a constant is not written";
  return success();
}

LogicalResult LaunchAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t threads,
                                 int64_t blockIterations, int64_t cluster, int64_t residentBlocks,
                                 bool sharesExponentials) {
  constexpr int64_t maxThreads = 1024, maxCluster = 16;
  if (threads < 1 || threads > maxThreads)
    return emitError() << threads << " threads a block: 1 to " << maxThreads;
  if (blockIterations < 1)
    return emitError() << blockIterations << " iterations a block: must be at least 1";
  if (cluster < 1 || cluster > maxCluster)
    return emitError() << "clusters of " << cluster << " blocks: 1 to " << maxCluster;
  if (residentBlocks < 0)
    return emitError() << residentBlocks << " resident blocks: must be at least 0";
  return success();
}

LogicalResult TensorMapAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t buffer,
                                    int64_t columns, int64_t rows, int64_t rowBytes,
                                    int64_t boxColumns, int64_t boxRows, int64_t swizzleBytes) {
  constexpr int64_t boxLimit = 256, engineBytes = 16;
  if (buffer < 0 || columns < 1 || rows < 1)
    return emitError() << "a tensor map of " << rows << " rows of " << columns
                       << " elements of buffer " << buffer << ", which is none";
  if (rowBytes < 1 || rowBytes % engineBytes != 0)
    return emitError() << "a tensor map with rows " << rowBytes
                       << " bytes apart, which the copy engine does not take: a multiple of "
                       << engineBytes;
  if (boxColumns < 1 || boxColumns > boxLimit || boxRows < 1 || boxRows > boxLimit)
    return emitError() << "a tensor map with boxes of " << boxRows << " rows of " << boxColumns
                       << " elements, which the copy engine does not take: 1 to " << boxLimit;
  if (!llvm::is_contained({32, 64, 128}, swizzleBytes))
    return emitError() << "a tensor map with a swizzle of " << swizzleBytes
                       << " bytes, which the copy engine does not take: 32, 64 or 128";
  return success();
}

//===- Functions ----------------------------------------------------------===//

void FuncOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type,
                   ArrayRef<ParameterAttr> parameters) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getParametersAttrName(state.name),
                     builder.getArrayAttr(SmallVector<Attribute>(parameters)));
  state.addRegion();
}

/// `@name(read %x: memref<8xf32> as "x", %scratch: memref<0xi8>, ...) attributes {...} { ... }`; a
/// declaration has types alone.
ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseSymbolName(name, getSymNameAttrName(result.name), result.attributes))
    return failure();
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> types;
  SmallVector<Attribute> parameters;
  auto parseArgument = [&]() -> ParseResult {
    const SMLoc at = parser.getCurrentLocation();
    std::optional<Access> access;
    StringRef word;
    if (succeeded(parser.parseOptionalKeyword(&word, {"read", "write", "read_write", "add"})))
      access = symbolizeAccess(word);
    OpAsmParser::Argument argument;
    const OptionalParseResult named =
        parser.parseOptionalArgument(argument, /*allowType=*/true, /*allowAttrs=*/false);
    if (named.has_value()) {
      if (failed(*named) || parser.parseOptionalLocationSpecifier(argument.sourceLoc))
        return failure();
      arguments.push_back(argument);
      types.push_back(argument.type);
    } else if (parser.parseType(types.emplace_back())) {
      return failure();
    }
    if (!access)
      return success();
    if (parameters.size() + 1 < types.size())
      return parser.emitError(at) << "the access of argument " << types.size() - 1
                                  << " follows an argument that states none";
    ParameterDetails details;
    if (parseDetails(parser, details))
      return failure();
    parameters.push_back(makeParameter(parser, at, *access, details));
    return success(bool(parameters.back()));
  };
  const SMLoc at = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseArgument) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  Builder &builder = parser.getBuilder();
  result.addAttribute(getFunctionTypeAttrName(result.name),
                      TypeAttr::get(builder.getFunctionType(types, {})));
  result.addAttribute(getParametersAttrName(result.name), builder.getArrayAttr(parameters));
  Region *body = result.addRegion();
  const OptionalParseResult parsed = parser.parseOptionalRegion(*body, arguments);
  if (!parsed.has_value())
    return success();
  if (succeeded(*parsed) && arguments.size() != types.size())
    return parser.emitError(at) << "a kernel with a body names all its arguments";
  return *parsed;
}

void FuncOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << '(';
  for (auto [i, type] : llvm::enumerate(getArgumentTypes())) {
    if (i)
      printer << ", ";
    const bool isBuffer = i < getNumBuffers();
    if (isBuffer)
      printer << stringifyAccess(getParameter(i).getAccess()) << ' ';
    if (isExternal())
      printer.printType(type);
    else
      printer.printRegionArgument(getArgument(i));
    if (isBuffer)
      printDetails(printer, getParameter(i));
  }
  printer << ')';
  SmallVector<StringRef> elided = {getSymNameAttrName(), getFunctionTypeAttrName(),
                                   getParametersAttrName()};
  if (getGrain() == 1)
    elided.push_back(getGrainAttrName());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), elided);
  if (isExternal())
    return;
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

/// A map names bytes of the kernel's buffer only, and its boxes fit their swizzle. Of a buffer
/// whose size is not known, nothing is known here: nano-verify-kernels refuses it.
static LogicalResult verifyTensorMap(FuncOp kernel, TensorMapAttr map) {
  if (map.getBuffer() >= int64_t(kernel.getNumBuffers()))
    return kernel.emitOpError("has a tensor map of buffer ")
           << map.getBuffer() << " of " << kernel.getNumBuffers();
  const MemRefType type = kernel.getBufferType(map.getBuffer());
  const int64_t element = type.getElementTypeBitWidth() / 8, row = map.getColumns() * element;
  if (map.getBoxColumns() * element > map.getSwizzleBytes())
    return kernel.emitOpError("has a tensor map with boxes of ")
           << map.getBoxColumns() << " columns of " << element
           << " bytes, which are wider than the " << map.getSwizzleBytes()
           << " bytes of its swizzle";
  if (map.getRowBytes() < row)
    return kernel.emitOpError("has a tensor map with rows of ")
           << row << " bytes that are " << map.getRowBytes() << " bytes apart";
  if (!type.hasStaticShape())
    return success();
  int64_t bytes = element;
  auto [strides, offset] = type.getStridesAndOffset();
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), strides))
    bytes += (size - 1) * stride * element;
  if (type.getNumElements() == 0 || (map.getRows() - 1) * map.getRowBytes() + row > bytes)
    return kernel.emitOpError("has a tensor map of ")
           << map.getRows() << " rows of " << map.getColumns() << " elements, " << map.getRowBytes()
           << " bytes apart, which reaches beyond the " << bytes << " bytes of buffer "
           << map.getBuffer();
  return success();
}

LogicalResult FuncOp::verify() {
  const ArrayRef<Type> types = getArgumentTypes();
  auto isScratch = [](Type type) {
    auto memref = dyn_cast<MemRefType>(type);
    return memref && memref.getRank() == 1 && memref.hasStaticShape() &&
           memref.getElementType().isInteger(8);
  };
  if (types.size() < fixedArguments || !isScratch(types.end()[-3]) || !types.end()[-2].isIndex() ||
      !types.end()[-1].isIndex())
    return emitOpError("takes buffers and then memref<Nxi8> of scratch memory, begin and end");
  const size_t buffers = types.size() - fixedArguments;
  if (getParameters().size() < buffers)
    return emitOpError("does not state what it does with argument ")
           << getParameters().size() << ": read, write, read_write or add";
  if (getParameters().size() > buffers)
    return emitOpError("states what it does with ")
           << getParameters().size() << " buffers, but takes " << buffers;
  for (auto [i, type] : llvm::enumerate(types.take_front(buffers)))
    if (!isa<MemRefType>(type))
      return emitOpError("argument ") << i << " is " << type << ", which is no memory";
  if (getFunctionType().getNumResults() != 0)
    return emitOpError("has results: a kernel writes its buffers");
  if (std::optional<uint64_t> iterations = getIterations(); iterations && int64_t(*iterations) < 0)
    return emitOpError("iterations must be at least 0");
  if (int64_t(getGrain()) < 1)
    return emitOpError("grain must be at least 1");
  for (FloatAttr flops : {getFlopsAttr(), getFlopsPerKeyAttr()})
    if (flops && !(flops.getValueAsDouble() >= 0))
      return emitOpError("has a number of operations below 0");
  if (std::optional<Type> type = getFlopsType())
    if (!isa<Float32Type, BFloat16Type, Float8E4M3FNType, Float8E5M2Type>(*type))
      return emitOpError("has operations of ") << *type << "; their rates are those of f32, bf16 "
                                               << "and 8-bit types";
  if (getTensorMaps())
    for (auto map : getTensorMaps()->getAsRange<TensorMapAttr>())
      if (failed(verifyTensorMap(*this, map)))
        return failure();
  return success();
}

void FuncOp::setParameter(unsigned buffer, ParameterAttr parameter) {
  SmallVector<Attribute> parameters(getParameters().getValue());
  parameters[buffer] = parameter;
  setParametersAttr(ArrayAttr::get(getContext(), parameters));
}

int64_t FuncOp::touchedBytes(unsigned buffer, MemRefType type, int64_t iterations) {
  int64_t elements = type.getNumElements();
  if (const int64_t picks = getParameter(buffer).getPicks())
    elements = std::min(elements, picks * iterations);
  return elements * (type.getElementTypeBitWidth() / 8);
}
