// Ops of the `kernel` dialect.
#ifndef NANO_IR_KERNEL_OPS_TD
#define NANO_IR_KERNEL_OPS_TD

include "ir/kernel/KernelAttributes.td"
include "mlir/Interfaces/FunctionInterfaces.td"

class Kernel_Op<string mnemonic, list<Trait> traits = []> : Op<KernelDialect, mnemonic, traits>;

def Kernel_FuncOp : Kernel_Op<"func", [AutomaticAllocationScope, FunctionOpInterface, IsolatedFromAbove]> {
  let summary = "a generated kernel: what it does with which buffers, and how";
  let description = [{
    The function's arguments are one memref a buffer, each behind what the kernel does with it (`#kernel.parameter`), and then three that every
    kernel has: scratch memory, private to a call on the CPU and to a block of threads on a GPU, of as many bytes as its type has; begin and end, the
    iterations of the kernel's work that this call is to do. Iterations are independent.

    `iterations` is the number of iterations of a launch that does not state its own; `grain` the fewest that are worth giving to one thread of a CPU;
    `launch` how it is launched on a GPU; `tensor_maps` the matrices that it loads in boxes. Instead of a body of its own it may have a template of the device library, which
    `instantiates` names with its parameters: then the body is empty. `flops` are the floating-point operations of an iteration that computes products, `flops_per_key` those of one
    of attention for each key that its queries see on average: how many those are, the data decide. `flops_type` is the type whose rate of operations they run at, f32 unless it is there.
    `summary` is for readers. A kernel without a body is declared alone: it can be scheduled.

    Errors: an argument without an access, or an access without an argument; arguments behind the buffers that are not scratch memory, begin and end; a result; a negative number of iterations
    or operations; operations of another type than f32, bf16 and the 8-bit ones; a grain below 1; a tensor map that does not fit its buffer (`#kernel.tensor_map`).

    ```mlir
    module @kernels {
      kernel.func @scale(read %x: memref<8xf32> as "x" constant, write %y: memref<8xf32> as "y", %scratch: memref<0xi8>, %begin: index, %end: index)
          attributes {iterations = 8 : i64, summary = "mul"} {
        %one = arith.constant 1 : index
        scf.for %i = %begin to %end step %one {
          %v = memref.load %x[%i] : memref<8xf32>
          %w = arith.mulf %v, %v : f32
          memref.store %w, %y[%i] : memref<8xf32>
        }
        kernel.return
      }
      kernel.func @sum(read memref<?xf32>, add memref<f32>, memref<64xi8>, index, index)
          attributes {launch = #kernel.launch<threads = 256, block_iterations = 4>}
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       TypedArrayAttrBase<Kernel_ParameterAttr, "a parameter for each buffer">:$parameters,
                       OptionalAttr<I64Attr>:$iterations, DefaultValuedAttr<I64Attr, "1">:$grain, OptionalAttr<Kernel_LaunchAttr>:$launch,
                       OptionalAttr<Kernel_TemplateInterface>:$instantiates,
                       OptionalAttr<TypedArrayAttrBase<Kernel_TensorMapAttr, "matrices that are loaded in boxes">>:$tensor_maps,
                       OptionalAttr<F64Attr>:$flops, OptionalAttr<F64Attr>:$flops_per_key,
                       OptionalAttr<TypeAttr>:$flops_type, OptionalAttr<StrAttr>:$summary,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type, "::llvm::ArrayRef<::nano::kernel::ParameterAttr>":$parameters)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    /// The arguments behind the buffers: scratch, begin, end.
    static constexpr unsigned fixedArguments = 3;

    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return isExternal() ? nullptr : &getBody(); }

    /// The buffers that it takes.
    unsigned getNumBuffers() { return getParameters().size(); }
    ::nano::kernel::ParameterAttr getParameter(unsigned buffer) {
      return ::llvm::cast<::nano::kernel::ParameterAttr>(getParameters()[buffer]);
    }
    void setParameter(unsigned buffer, ::nano::kernel::ParameterAttr parameter);
    bool reads(unsigned buffer) { return ::nano::kernel::reads(getParameter(buffer).getAccess()); }
    bool writes(unsigned buffer) { return ::nano::kernel::writes(getParameter(buffer).getAccess()); }
    ::mlir::MemRefType getBufferType(unsigned buffer) {
      return ::llvm::cast<::mlir::MemRefType>(getFunctionType().getInput(buffer));
    }
    /// Scratch memory of a call, in bytes.
    int64_t getScratchBytes() { return getBufferType(getNumBuffers()).getNumElements(); }
    /// Bytes that a launch of so many iterations touches of a buffer of the type.
    int64_t touchedBytes(unsigned buffer, ::mlir::MemRefType type, int64_t iterations);
  }];
}

def Kernel_ReturnOp : Kernel_Op<"return", [HasParent<"FuncOp">, Pure, Terminator]> {
  let summary = "ends a kernel";
  let description = [{
    Errors: a place that is not the end of a `kernel.func`.

    ```mlir
    kernel.func @nothing(%scratch: memref<0xi8>, %begin: index, %end: index) {
      kernel.return
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

#endif // NANO_IR_KERNEL_OPS_TD
