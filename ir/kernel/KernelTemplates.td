// Templates of the device library, each an attribute of a kernel with its parameters as named fields.
#ifndef NANO_IR_KERNEL_TEMPLATES_TD
#define NANO_IR_KERNEL_TEMPLATES_TD

include "ir/kernel/KernelDialect.td"

/// A template; what it says to proofs is hand-written beside its verifier.
class Kernel_Template<string name, string mnemonicOf, list<string> methods = []> : AttrDef<KernelDialect, name, [
    DeclareAttrInterfaceMethods<Kernel_TemplateInterface, ["getReadPositions", "getWrittenPositions"] # methods>]> {
  let mnemonic = mnemonicOf;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Kernel_ScanAttr : Kernel_Template<"Scan", "scan"> {
  let summary = "running sums or maxima of a vector (nano_scan.h)";
  let description = [{
    `size` numbers of buffer `x`, one block for all; the result goes to each of the buffers `y`.

    Example: `#kernel.scan<size = 128, maximum = false, x = 0, y = [1]>`
  }];
  let parameters = (ins "int64_t":$size, "bool":$maximum, "int64_t":$x, "::mlir::DenseI64ArrayAttr":$y);
}

#endif // NANO_IR_KERNEL_TEMPLATES_TD
