// What an entry of KernelTemplates.td consists of, and what is made of it.
#ifndef NANO_IR_KERNEL_ENTRY_TD
#define NANO_IR_KERNEL_ENTRY_TD

include "ir/kernel/KernelDialect.td"

/// A template. Buffers are fields that name positions among the kernel's; a result may go to several.
class Kernel_Template<string name, string mnemonicOf, list<string> methods = []> : AttrDef<KernelDialect, name, [
    DeclareAttrInterfaceMethods<Kernel_TemplateInterface, ["getReadPositions", "getWrittenPositions"] # methods>]> {
  let mnemonic = mnemonicOf;
  let assemblyFormat = "`<` struct(params) `>`";
}

/// A field of a Kernel_Entry: the type of the attribute's parameter, and what it is to the kernel.
class Kernel_Field<string nameOf, string typeOf, string kindOf, bit isOptional = 0> {
  string name = nameOf;
  string type = typeOf;
  string made = "TemplateField::" # kindOf # "(\"" # nameOf # "\", getImpl()->" # nameOf # ")";
  bit isSize = 0;
  AttrOrTypeParameter parameter = !if(isOptional, OptionalParameter<typeOf>, AttrParameter<typeOf, "">);
}
/// Constants: a number that is at least 1, several of them, one that is not so bound, one where there is any, a flag, a real number.
class Size<string name> : Kernel_Field<name, "int64_t", "constant"> { let isSize = 1; }
class Sizes<string name> : Kernel_Field<name, "::mlir::DenseI64ArrayAttr", "constants">;
class Number<string name> : Kernel_Field<name, "int64_t", "constant">;
class Flag<string name> : Kernel_Field<name, "bool", "constant">;
class NumberIfAny<string name> : Kernel_Field<name, "std::optional<int64_t>", "constantIfAny", 1>;
class Real<string name> : Kernel_Field<name, "::mlir::FloatAttr", "constant">;
/// Buffers that are read and written, by their positions; WriteEach: one result, which goes to each of several; ReadAll, WriteAll, AddAll: as many operands or
/// results as there are buffers.
class Read<string name> : Kernel_Field<name, "int64_t", "read">;
class ReadIfAny<string name> : Kernel_Field<name, "std::optional<int64_t>", "read", 1>;
class Write<string name> : Kernel_Field<name, "int64_t", "write">;
class WriteIfAny<string name> : Kernel_Field<name, "std::optional<int64_t>", "write", 1>;
class AddIfAny<string name> : Kernel_Field<name, "std::optional<int64_t>", "add", 1>;
class Add<string name> : Kernel_Field<name, "int64_t", "add">;
class WriteEach<string name> : Kernel_Field<name, "::mlir::DenseI64ArrayAttr", "write">;
class ReadAll<string name> : Kernel_Field<name, "::mlir::DenseI64ArrayAttr", "read">;
class WriteAll<string name> : Kernel_Field<name, "::mlir::DenseI64ArrayAttr", "writes">;
class AddAll<string name> : Kernel_Field<name, "::mlir::DenseI64ArrayAttr", "adds">;
/// A function beside the kernel, where there is one: the text's of this name, with these parameters.
class FunctionIfAny<string name, string nameInText, list<string> arguments> : Kernel_Field<name, "::mlir::FlatSymbolRefAttr", "function", 1> {
  let made = "TemplateField::function(\"" # name # "\", getImpl()->" # name # ", \"" # nameInText # "\", {\"" # !interleave(arguments, "\", \"") # "\"})";
}

/// A template in all that the compiler knows of it. `noun`: its name in errors; `errors`: C++ that returns those beside sizes below 1. `reach`: C++
/// that returns how many elements, from the first on, a launch reaches of the buffer at `position`, of the fields' values; 0: it is not known. `maps`: C++ that
/// returns the tensor maps that the kernel must have, as `maps.map` in the call means them, of `buffers`, their types. `definition` stands
/// before the kernel, `call` is the kernel's text, and `work.begin` in it the iteration. In both:
///
///   %name, %name.view      a constant, or several with commas between; of a buffer its pointer, and that with its strides: {x, 64, 1}; of a function its definition
///   %name.type, .stride    of a buffer: its element type, its outermost stride; %a|b.type: of the first of the two that there is
///   %name.given, .count    whether there is such a constant, buffer or function; how many
///   %name.place            the number of the place. A line that names the buffers of a list stands once for each
///   %if(name), %unless(…)  begins a line that stands where there is such a field, and where there is none. A line without them is
///                          left out where it names what there is not
///   %threads               threads of a block
class Kernel_Entry<string name, string mnemonicOf, string headerOf, list<Kernel_Field> fields, string noun, list<string> methods = []>
    : Kernel_Template<name, mnemonicOf, methods> {
  string definition = "";
  string call = "";
  string errors = "";
  string reach = "return 0;";
  string maps = "return {};";
  let parameters = !dag(ins, !foreach(each, fields, each.parameter), !foreach(each, fields, each.name));
  let genVerifyDecl = 1;
  let extraClassDeclaration = "::nano::kernel::TemplateEntry getEntry() const;\nuint64_t getElementsReached(int64_t position) const;\n"
      "::llvm::SmallVector<TemplateMap> getMaps(::mlir::TypeRange buffers) const;";
  defvar adds = !if(!empty(methods), "", "bool $cppClass::isAdded(size_t result) const { return getEntry().isAdded(result); }\n");
  let extraClassDefinition =
      "::llvm::SmallVector<int64_t> $cppClass::getReadPositions() const { return getEntry().reads(); }\n"
      "::llvm::SmallVector<::llvm::SmallVector<int64_t>> $cppClass::getWrittenPositions() const { return getEntry().writes(); }\n" # adds #
      "::llvm::LogicalResult $cppClass::verify(::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError"
      # !interleave(!foreach(each, fields, ", " # each.type # " " # each.name), "") # ") {\n" # errors # "\n  return verifySizes(emitError, \"" # noun
      # "\", {" # !interleave(!foreach(each, !filter(each, fields, each.isSize), each.name), ", ") # "});\n}\n"
      "uint64_t $cppClass::getElementsReached(int64_t position) const {\n"
      # !interleave(!foreach(each, fields, "[[maybe_unused]] const auto &" # each.name # " = getImpl()->" # each.name # ";\n"), "") # reach # "\n}\n"
      "::llvm::SmallVector<TemplateMap> $cppClass::getMaps([[maybe_unused]] ::mlir::TypeRange buffers) const {\n"
      # !interleave(!foreach(each, fields, "[[maybe_unused]] const auto &" # each.name # " = getImpl()->" # each.name # ";\n"), "") # maps # "\n}\n"
      "::nano::kernel::TemplateEntry $cppClass::getEntry() const {\n  return {\"" # headerOf # "\", R\"(" # definition # ")\", R\"(" # call # ")\", {"
      # !interleave(!foreach(each, fields, each.made), ",\n    ") # "}};\n}\n";
}

#endif // NANO_IR_KERNEL_ENTRY_TD
