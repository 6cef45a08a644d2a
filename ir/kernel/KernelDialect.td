// The `kernel` dialect: how one generated kernel computes what it computes, with everything that other parts of the compiler ask of it typed.
#ifndef NANO_IR_KERNEL_DIALECT_TD
#define NANO_IR_KERNEL_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def KernelDialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::nano::kernel";
  let summary = "Generated kernels, typed";
  let description = [{
    The nested module `@kernels` of a program holds one `kernel.func` a generated kernel, launched by `step.launch`. Its attributes say what schedules, the
    memory planner, the proofs and the code generators ask: what it does with each buffer, the size of its work, how it is launched on a GPU. Its body
    is loops and vectors of the dialects scf, vector, arith, math and memref; beside the kernels stand the `func.func`s that they call.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::memref::MemRefDialect"];
}

def Kernel_AccessAttr : I32EnumAttr<"Access", "what a kernel does with a buffer", [
    I32EnumAttrCase<"read", 0>, I32EnumAttrCase<"write", 1>, I32EnumAttrCase<"read_write", 2>, I32EnumAttrCase<"add", 3>]> {
  let cppNamespace = "::nano::kernel";
  let genSpecializedAttr = 0;
}

def Kernel_TemplateInterface : AttrInterface<"TemplateAttrInterface"> {
  let cppNamespace = "::nano::kernel";
  let description = [{
    A template of the device library with its parameters, which is what a kernel without loops of its own does. Positions are those of the kernel's buffers.
  }];
  let methods = [
    InterfaceMethod<"The buffers that the template reads, one an operand.", "::llvm::SmallVector<int64_t>", "getReadPositions">,
    InterfaceMethod<"The buffers that the template writes: for each result the places that it is put to.",
                    "::llvm::SmallVector<::llvm::SmallVector<int64_t>>", "getWrittenPositions">,
    InterfaceMethod<"True of a result that is added to what is in its place.", "bool", "isAdded", (ins "size_t":$result), [{}],
                    [{ return false; }]>,
    InterfaceMethod<"The elements, from the first on, that it reaches of the buffer at a position, as far as its sizes say so; 0: not known. The largest number "
                    "where a size or a distance is below 0.", "uint64_t", "getElementsReached", (ins "int64_t":$position), [{}], [{ return 0; }]>,
    InterfaceMethod<"True where blocks read elements at other places than those that they write.", "bool", "readsOtherPlaces", (ins), [{}],
                    [{ return true; }]>];
}

#endif // NANO_IR_KERNEL_DIALECT_TD
