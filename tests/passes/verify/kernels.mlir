// RUN: nano-opt %s -nano-verify-kernels -split-input-file -verify-diagnostics

// What is right: loads and stores behind views, an update in place, a template with its map.
module {
  module @kernels {
    kernel.func @exp(read %x: memref<2x8xf32>, read_write %y: memref<16xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %flat = memref.reinterpret_cast %x to offset: [0], sizes: [16], strides: [1] : memref<2x8xf32> to memref<16xf32>
      %a = vector.load %flat[%zero] : memref<16xf32>, vector<16xf32>
      %b = vector.load %y[%zero] : memref<16xf32>, vector<16xf32>
      %c = arith.addf %a, %b : vector<16xf32>
      vector.store %c, %y[%zero] : memref<16xf32>, vector<16xf32>
      kernel.return
    }
    kernel.func @product(read %a: memref<128x64xbf16>, read %b: memref<128x64xbf16>, write %c: memref<128x128xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [],
                    results = [array<i64: 2>], added = []>,
                    tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

// An argument that the kernel says nothing about.
module {
  module @kernels {
    // expected-error @below {{does not state what it does with argument 1: read, write, read_write or add}}
    kernel.func @silent(read %x: memref<8xf32>, %y: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      kernel.return
    }
  }
}

// -----

// A read that is a write.
module {
  module @kernels {
    // expected-error @below {{may write argument 0, which it does not state}}
    kernel.func @writes(read %x: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %v = vector.load %x[%zero] : memref<8xf32>, vector<8xf32>
      vector.store %v, %x[%zero] : memref<8xf32>, vector<8xf32>
      kernel.return
    }
  }
}

// -----

// A write that nobody does: a later read would find what was there before.
module {
  module @kernels {
    // expected-error @below {{states to write argument 1, which it does not do}}
    kernel.func @idle(read %x: memref<8xf32>, write %y: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %v = vector.load %x[%zero] : memref<8xf32>, vector<8xf32>
      kernel.return
    }
  }
}

// -----

// A read of what is only written, inside a loop and behind a view.
module {
  module @kernels {
    // expected-error @below {{may read argument 0, which it does not state}}
    kernel.func @reads(write %x: memref<2x8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %one = arith.constant 1 : index
      %flat = memref.reinterpret_cast %x to offset: [0], sizes: [16], strides: [1] : memref<2x8xf32> to memref<16xf32>
      scf.for %i = %begin to %end step %one {
        %v = memref.load %flat[%i] : memref<16xf32>
        memref.store %v, %flat[%i] : memref<16xf32>
      }
      kernel.return
    }
  }
}

// -----

// What it has written itself it may read again.
module {
  module @kernels {
    kernel.func @back(read %x: memref<8xf32>, write %y: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %v = vector.load %x[%zero] : memref<8xf32>, vector<8xf32>
      vector.store %v, %y[%zero] : memref<8xf32>, vector<8xf32>
      %w = vector.load %y[%zero] : memref<8xf32>, vector<8xf32>
      %s = arith.addf %v, %w : vector<8xf32>
      vector.store %s, %y[%zero] : memref<8xf32>, vector<8xf32>
      kernel.return
    }
  }
}

// -----

// Through a cast too, but no more than that.
module {
  module @kernels {
    // expected-error @below {{may read argument 0, which it does not state}}
    kernel.func @cast(write %y: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1.0 : f32
      %any = memref.cast %y : memref<8xf32> to memref<?xf32>
      memref.store %one, %any[%zero] : memref<?xf32>
      %w = vector.load %y[%zero] : memref<8xf32>, vector<8xf32>
      vector.store %w, %y[%zero] : memref<8xf32>, vector<8xf32>
      kernel.return
    }
  }
}

// -----

// A function that nobody knows may write what it is given.
module {
  module @kernels {
    func.func private @mystery(memref<8xf32>)
    // expected-error @below {{may write argument 0, which it does not state}}
    kernel.func @calls(read %x: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      func.call @mystery(%x) : (memref<8xf32>) -> ()
      kernel.return
    }
  }
}

// -----

// Rows that are copied ahead are read, and nothing else.
module {
  module @kernels {
    func.func private @"copyAhead<nano::bf16, 16, 64>"(memref<64xbf16, 3>, index, memref<?xbf16>, index)
    // expected-error @below {{states to write argument 0, which it does not do}}
    kernel.func @copies(read_write %x: memref<?xbf16>, %scratch: memref<128xi8, 3>, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %rows = memref.view %scratch[%c0][] : memref<128xi8, 3> to memref<64xbf16, 3>
      func.call @"copyAhead<nano::bf16, 16, 64>"(%rows, %c0, %x, %c0) : (memref<64xbf16, 3>, index, memref<?xbf16>, index) -> ()
      kernel.return
    }
  }
}

// -----

// A template whose result is stated to be read.
module {
  module @kernels {
    // expected-error @below {{states to read argument 1, which it does not do}}
    kernel.func @scan(read %x: memref<8xi32>, read %y: memref<8xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.scan<size = 8, maximum = false, x = 0, y = [1]>} {
      kernel.return
    }
  }
}

// -----

// A result that is added to what is there is read too.
module {
  module @kernels {
    // expected-error @below {{may read argument 2, which it does not state}}
    kernel.func @adds(read %a: memref<128x64xbf16>, read %b: memref<128x64xbf16>, write %c: memref<128x128xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [],
                    results = [array<i64: 2>], added = [0]>} {
      kernel.return
    }
  }
}

// -----

// Of a buffer of any size nothing says that a map stays inside it.
module {
  module @kernels {
    // expected-error @below {{has a tensor map of buffer 0, whose size is not known}}
    kernel.func @map(read %a: memref<?xbf16>, write %c: memref<8xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 0, scales = [], others = [],
                    results = [array<i64: 1>], added = []>,
                    tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

// A sum that is added to memory, which the kernel states to read and to write, but not to add to.
module {
  module @kernels {
    // expected-error @below {{adds to argument 2, which it does not state}}
    kernel.func @adds(read %a: memref<128x64xbf16>, read %b: memref<128x64xbf16>, read_write %c: memref<128x128xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [],
                    results = [array<i64: 2>], added = [0]>} {
      kernel.return
    }
  }
}

// -----

// Loops promise nothing of the kind: two iterations could add to one element.
module {
  module @kernels {
    // expected-error @below {{states to add to argument 0, which it does not do}}
    kernel.func @loops(add %x: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %v = memref.load %x[%begin] : memref<8xf32>
      memref.store %v, %x[%begin] : memref<8xf32>
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a template of buffer 2, but takes 2}}
    kernel.func @scan(read %x: memref<8xi32>, write %y: memref<8xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.scan<size = 8, maximum = false, x = 0, y = [2]>} {
      kernel.return
    }
  }
}

// -----

// It has written one element and reads another.
module {
  module @kernels {
    // expected-error @below {{may read argument 0, which it does not state}}
    kernel.func @beside(write %y: memref<4x2xf32>, %scratch: memref<0xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %f = arith.constant 1.0 : f32
      scf.for %i = %begin to %end step %one {
        memref.store %f, %y[%i, %zero] : memref<4x2xf32>
        %v = memref.load %y[%i, %one] : memref<4x2xf32>
      }
      kernel.return
    }
  }
}

// -----

// It writes before it reads, but not always.
module {
  module @kernels {
    // expected-error @below {{may read argument 0, which it does not state}}
    kernel.func @sometimes(write %y: memref<4xf32>, %scratch: memref<0xi8>, %begin: index, %end: index) {
      %one = arith.constant 1 : index
      %f = arith.constant 1.0 : f32
      scf.for %i = %begin to %end step %one {
        %first = arith.cmpi slt, %i, %one : index
        scf.if %first {
          memref.store %f, %y[%i] : memref<4xf32>
        }
        %v = memref.load %y[%i] : memref<4xf32>
      }
      kernel.return
    }
  }
}

// -----

// What one loop has written another of the same bounds may read, and of a vector a part.
module {
  module @kernels {
    kernel.func @loops(write %y: memref<4x8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) attributes {iterations = 4 : i64} {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %four = arith.constant 4 : index
      %f = arith.constant dense<1.0> : vector<4xf32>
      %part = memref.view %scratch[%zero][] : memref<64xi8> to memref<16xf32>
      scf.for %i = %begin to %end step %one {
        scf.for %j = %zero to %four step %four {
          %at = arith.addi %j, %four : index
          vector.store %f, %y[%i, %at] : memref<4x8xf32>, vector<4xf32>
        }
        scf.for %j = %zero to %four step %four {
          %at = arith.addi %j, %four : index
          %v = vector.load %y[%i, %at] : memref<4x8xf32>, vector<4xf32>
        }
        vector.store %f, %y[%i, %zero] : memref<4x8xf32>, vector<4xf32>
        %w = memref.load %y[%i, %one] : memref<4x8xf32>
      }
      kernel.return
    }
  }
}

// -----

// A number beyond the buffer.
module {
  module @kernels {
    kernel.func @beyond(write %y: memref<4x2xf32>, %scratch: memref<0xi8>, %begin: index, %end: index) {
      %one = arith.constant 1 : index
      %two = arith.constant 2 : index
      %f = arith.constant 1.0 : f32
      scf.for %i = %begin to %end step %one {
        // expected-error @below {{reaches element 2 of 2}}
        memref.store %f, %y[%i, %two] : memref<4x2xf32>
      }
      kernel.return
    }
  }
}

// -----

// The last round of a loop is beyond the buffer.
module {
  module @kernels {
    kernel.func @round(write %y: memref<10xf32>, %scratch: memref<0xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %four = arith.constant 4 : index
      %twelve = arith.constant 12 : index
      %f = arith.constant dense<1.0> : vector<4xf32>
      scf.for %j = %zero to %twelve step %four {
        // expected-error @below {{reaches element 11 of 10}}
        vector.store %f, %y[%j] : memref<10xf32>, vector<4xf32>
      }
      kernel.return
    }
  }
}

// -----

// More iterations than rows.
module {
  module @kernels {
    // expected-error @below {{does 5 iterations, but its body has room for 4}}
    kernel.func @rows(write %y: memref<4xf32>, %scratch: memref<0xi8>, %begin: index, %end: index) attributes {iterations = 5 : i64} {
      %one = arith.constant 1 : index
      %f = arith.constant 1.0 : f32
      scf.for %i = %begin to %end step %one {
        memref.store %f, %y[%i] : memref<4xf32>
      }
      kernel.return
    }
  }
}

// -----

// The launch says so.
module {
  module @kernels {
    kernel.func @rows(write %y: memref<4xf32>, %scratch: memref<0xi8>, %begin: index, %end: index) {
      %one = arith.constant 1 : index
      %f = arith.constant 1.0 : f32
      scf.for %i = %begin to %end step %one {
        memref.store %f, %y[%i] : memref<4xf32>
      }
      kernel.return
    }
  }
  step.program @first attributes {role = "first"} {
    %y = step.buffer "y" : memref<4xf32>
    // expected-error @below {{does 5 iterations, but its body has room for 4}}
    step.launch @rows(%y) {iterations = array<i64: 5>} : memref<4xf32>
  }
}

// -----

// Scratch memory that is smaller than its use.
module {
  module @kernels {
    kernel.func @scratch(write %y: memref<4xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %four = arith.constant 4 : index
      %f = arith.constant 1.0 : f32
      // expected-error @below {{reaches byte 68 of 64}}
      %part = memref.view %scratch[%four][] : memref<64xi8> to memref<16xf32>
      memref.store %f, %part[%zero] : memref<16xf32>
      memref.store %f, %y[%zero] : memref<4xf32>
      kernel.return
    }
  }
}

// -----

// What is read back was written before, under the same mask or a wider one.
module {
  module @kernels {
    kernel.func @rest(read %x: memref<9xf32>, write %y: memref<9xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %eight = arith.constant 8 : index
      %one = arith.constant dense<[true, false, false, false]> : vector<4xi1>
      %none = arith.constant dense<0.0> : vector<4xf32>
      %a = vector.load %x[%zero] : memref<9xf32>, vector<8xf32>
      vector.store %a, %y[%zero] : memref<9xf32>, vector<8xf32>
      %b = vector.maskedload %x[%eight], %one, %none : memref<9xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
      vector.maskedstore %y[%eight], %one, %b : memref<9xf32>, vector<4xi1>, vector<4xf32>
      %c = vector.maskedload %y[%eight], %one, %none : memref<9xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
      %d = vector.maskedload %y[%zero], %one, %none : memref<9xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
      kernel.return
    }
  }
}

// -----

// Of two elements one was written.
module {
  module @kernels {
    // expected-error @below {{may read argument 0, which it does not state}}
    kernel.func @more(write %y: memref<9xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %one = arith.constant dense<[true, false, false, false]> : vector<4xi1>
      %two = arith.constant dense<[true, true, false, false]> : vector<4xi1>
      %none = arith.constant dense<0.0> : vector<4xf32>
      vector.maskedstore %y[%zero], %one, %none : memref<9xf32>, vector<4xi1>, vector<4xf32>
      %c = vector.maskedload %y[%zero], %two, %none : memref<9xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
      kernel.return
    }
  }
}

// -----

// A mask lets an element through that the buffer does not have.
module {
  module @kernels {
    kernel.func @beyond(write %y: memref<9xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %eight = arith.constant 8 : index
      %two = arith.constant dense<[true, true, false, false]> : vector<4xi1>
      %none = arith.constant dense<0.0> : vector<4xf32>
      // expected-error @below {{reaches element 9 of 9}}
      vector.maskedstore %y[%eight], %two, %none : memref<9xf32>, vector<4xi1>, vector<4xf32>
      kernel.return
    }
  }
}

// -----

// Two loops that one was unrolled into write what a third of other steps reads back.
module {
  module @kernels {
    kernel.func @parts(write %y: memref<2x10xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %two = arith.constant 2 : index
      %four = arith.constant 4 : index
      %eight = arith.constant 8 : index
      %ten = arith.constant 10 : index
      %x = arith.constant dense<0.0> : vector<4xf32>
      %e = arith.constant 0.0 : f32
      scf.for %i = %begin to %end step %one {
        scf.for %k = %zero to %eight step %four {
          vector.store %x, %y[%i, %k] : memref<2x10xf32>, vector<4xf32>
        }
        scf.for %k = %eight to %ten step %one {
          memref.store %e, %y[%i, %k] : memref<2x10xf32>
        }
        scf.for %k = %zero to %ten step %two {
          %b = vector.load %y[%i, %k] : memref<2x10xf32>, vector<2xf32>
        }
      }
      kernel.return
    }
  }
}

// -----

// A loop reads columns back that none has written: between two that were written, and behind them.
module {
  module @kernels {
    // expected-error @below {{may read argument 0, which it does not state}}
    kernel.func @between(write %y: memref<2x10xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %nine = arith.constant 9 : index
      %ten = arith.constant 10 : index
      %e = arith.constant 0.0 : f32
      scf.for %i = %begin to %end step %one {
        memref.store %e, %y[%i, %zero] : memref<2x10xf32>
        memref.store %e, %y[%i, %nine] : memref<2x10xf32>
        scf.for %k = %zero to %ten step %one {
          %b = memref.load %y[%i, %k] : memref<2x10xf32>
        }
      }
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{may read argument 0, which it does not state}}
    kernel.func @behind(write %y: memref<2x10xf32>, %scratch: memref<64xi8>, %begin: index, %end: index) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %four = arith.constant 4 : index
      %eight = arith.constant 8 : index
      %ten = arith.constant 10 : index
      %x = arith.constant dense<0.0> : vector<4xf32>
      scf.for %i = %begin to %end step %one {
        scf.for %k = %zero to %eight step %four {
          vector.store %x, %y[%i, %k] : memref<2x10xf32>, vector<4xf32>
        }
        scf.for %k = %zero to %ten step %one {
          %b = memref.load %y[%i, %k] : memref<2x10xf32>
        }
      }
      kernel.return
    }
  }
}
