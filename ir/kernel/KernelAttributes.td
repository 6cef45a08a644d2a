// Attributes of kernels: what is known of a buffer, how a kernel is launched, what the copy engine is told.
#ifndef NANO_IR_KERNEL_ATTRIBUTES_TD
#define NANO_IR_KERNEL_ATTRIBUTES_TD

include "ir/kernel/KernelDialect.td"

def Kernel_ParameterAttr : AttrDef<KernelDialect, "Parameter"> {
  let mnemonic = "parameter";
  let summary = "what is known of a kernel's buffer, and what the kernel does with it";
  let description = [{
    | part | meaning |
    |---|---|
    | `read`, `write`, `read_write`, `add` | what the kernel does with the buffer; `add`: each iteration adds to elements of its own |
    | `as "x"` | what the buffer is called in the kernel's text |
    | `aligned 16` | bytes: a power of two that divides the address of its first element; not stated: the element's size |
    | `constant` | nothing writes the memory while the kernel runs, by way of another parameter either |
    | `picks 4` | of the buffer it touches so many elements an iteration, those that numbers pick; more only where these ask for it, which hardly any do |

    Errors: an alignment that is no power of two; a negative number of elements; a constant that the kernel writes.

    Example: `#kernel.parameter<read as "blocks.0.x" aligned 16 constant>`
  }];
  let parameters = (ins "::nano::kernel::Access":$access, StringRefParameter<>:$name, "int64_t":$alignment, "bool":$constant, "int64_t":$picks);
  let builders = [AttrBuilder<(ins "::nano::kernel::Access":$access), [{
    return $_get($_ctxt, access, "", 0, false, 0);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Kernel_LaunchAttr : AttrDef<KernelDialect, "Launch"> {
  let mnemonic = "launch";
  let summary = "how a kernel is launched on a GPU";
  let description = [{
    | field | meaning |
    |---|---|
    | `threads` | threads of a block |
    | `block_iterations` | iterations of a block |
    | `cluster` | blocks of a cluster |
    | `resident_blocks` | blocks that a multiprocessor must have registers for; 0: as it comes |
    | `shares_exponentials` | special functions are most of what the kernel does: other units take a part of the exponentials |

    Errors: threads that are not between 1 and 1024; no iteration a block; clusters that are not of 1 to 16 blocks; a negative number of blocks.

    Example: `#kernel.launch<threads = 256, block_iterations = 8>`
  }];
  let parameters = (ins "int64_t":$threads, DefaultValuedParameter<"int64_t", "1">:$block_iterations, DefaultValuedParameter<"int64_t", "1">:$cluster,
                        DefaultValuedParameter<"int64_t", "0">:$resident_blocks, DefaultValuedParameter<"bool", "false">:$shares_exponentials);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_TensorMapAttr : AttrDef<KernelDialect, "TensorMap"> {
  let mnemonic = "tensor_map";
  let summary = "a matrix in a kernel's buffer, as the copy engine of a GPU loads it in boxes";
  let description = [{
    | field | meaning |
    |---|---|
    | `buffer` | the position of the kernel's buffer |
    | `columns`, `rows`, `row_bytes` | the matrix from the buffer's first element on: its size in elements, and the bytes from a row to the next |
    | `box_columns`, `box_rows` | what is loaded at once |
    | `swizzle_bytes` | the width of the swizzle in shared memory |

    Errors: sizes below 1; rows that overlap or are not multiples of 16 bytes apart; boxes of more than 256 rows or columns; a swizzle of other than 32, 64 or 128 bytes. Of
    the kernel that has it: a buffer that it does not take, or takes without a size; a matrix that reaches beyond the buffer; a box whose rows are wider than the swizzle.

    Example: `#kernel.tensor_map<buffer = 0, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>`
  }];
  let parameters = (ins "int64_t":$buffer, "int64_t":$columns, "int64_t":$rows, "int64_t":$row_bytes, "int64_t":$box_columns, "int64_t":$box_rows,
                        "int64_t":$swizzle_bytes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // NANO_IR_KERNEL_ATTRIBUTES_TD
