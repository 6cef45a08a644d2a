// RUN: nano-opt %s -nano-verify-kernels -split-input-file -verify-diagnostics

// What is right: loads and stores behind views, an update in place, a template with its map.
module {
  module @kernels {
    func.func @exp(%x: memref<2x8xf32>, %y: memref<16xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.reads = array<i64: 0, 1>, nano.writes = array<i64: 1>} {
      %zero = arith.constant 0 : index
      %flat = memref.reinterpret_cast %x to offset: [0], sizes: [16], strides: [1] : memref<2x8xf32> to memref<16xf32>
      %a = vector.load %flat[%zero] : memref<16xf32>, vector<16xf32>
      %b = vector.load %y[%zero] : memref<16xf32>, vector<16xf32>
      %c = arith.addf %a, %b : vector<16xf32>
      vector.store %c, %y[%zero] : memref<16xf32>, vector<16xf32>
      return
    }
    func.func @product(%a: memref<128x64xbf16>, %b: memref<128x64xbf16>, %c: memref<128x128xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.template = "matmul", nano.reads = array<i64: 0, 1>, nano.writes = array<i64: 2>,
                    nano.operands = array<i64: 0, 1>, nano.results = [array<i64: 2>],
                    nano.tensor_maps = [array<i64: 0, 64, 128, 128, 64, 128, 128>, array<i64: 1, 64, 128, 128, 64, 128, 128>]} {
      return
    }
  }
}

// -----

// An argument that the kernel says nothing about.
module {
  module @kernels {
    // expected-error @below {{does not state what it does with argument 1: neither nano.reads nor nano.writes names it}}
    func.func @silent(%x: memref<8xf32>, %y: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.reads = array<i64: 0>, nano.writes = array<i64>} {
      return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{has no list of positions in nano.writes}}
    func.func @malformed(%x: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.reads = array<i64: 0>, nano.writes = "all"} {
      return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{nano.reads names argument 2 of 1}}
    func.func @beyond(%x: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.reads = array<i64: 0, 2>, nano.writes = array<i64>} {
      return
    }
  }
}

// -----

// A read that is a write.
module {
  module @kernels {
    // expected-error @below {{may write argument 0, which it does not state}}
    func.func @writes(%x: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.reads = array<i64: 0>, nano.writes = array<i64>} {
      %zero = arith.constant 0 : index
      %v = vector.load %x[%zero] : memref<8xf32>, vector<8xf32>
      vector.store %v, %x[%zero] : memref<8xf32>, vector<8xf32>
      return
    }
  }
}

// -----

// A write that nobody does: a later read would find what was there before.
module {
  module @kernels {
    // expected-error @below {{states to write argument 1, which it does not do}}
    func.func @idle(%x: memref<8xf32>, %y: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.reads = array<i64: 0>, nano.writes = array<i64: 1>} {
      %zero = arith.constant 0 : index
      %v = vector.load %x[%zero] : memref<8xf32>, vector<8xf32>
      return
    }
  }
}

// -----

// A read of what is only written, inside a loop and behind a view.
module {
  module @kernels {
    // expected-error @below {{may read argument 0, which it does not state}}
    func.func @reads(%x: memref<2x8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.reads = array<i64>, nano.writes = array<i64: 0>} {
      %one = arith.constant 1 : index
      %flat = memref.reinterpret_cast %x to offset: [0], sizes: [16], strides: [1] : memref<2x8xf32> to memref<16xf32>
      scf.for %i = %begin to %end step %one {
        %v = memref.load %flat[%i] : memref<16xf32>
        memref.store %v, %flat[%i] : memref<16xf32>
      }
      return
    }
  }
}

// -----

// What it has written itself it may read again.
module {
  module @kernels {
    func.func @back(%x: memref<8xf32>, %y: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.reads = array<i64: 0>, nano.writes = array<i64: 1>} {
      %zero = arith.constant 0 : index
      %v = vector.load %x[%zero] : memref<8xf32>, vector<8xf32>
      vector.store %v, %y[%zero] : memref<8xf32>, vector<8xf32>
      %w = vector.load %y[%zero] : memref<8xf32>, vector<8xf32>
      %s = arith.addf %v, %w : vector<8xf32>
      vector.store %s, %y[%zero] : memref<8xf32>, vector<8xf32>
      return
    }
  }
}

// -----

// A function that nobody knows may write what it is given.
module {
  module @kernels {
    func.func private @mystery(memref<8xf32>)
    // expected-error @below {{may write argument 0, which it does not state}}
    func.func @calls(%x: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.reads = array<i64: 0>, nano.writes = array<i64>} {
      func.call @mystery(%x) : (memref<8xf32>) -> ()
      return
    }
  }
}

// -----

// A template whose result is stated to be read.
module {
  module @kernels {
    // expected-error @below {{states to read argument 1, which it does not do}}
    func.func @scan(%x: memref<8xi32>, %y: memref<8xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.template = "scan", nano.reads = array<i64: 0, 1>, nano.writes = array<i64>,
                    nano.operands = array<i64: 0>, nano.results = [array<i64: 1>]} {
      return
    }
  }
}

// -----

// A result that is added to what is there is read too.
module {
  module @kernels {
    // expected-error @below {{may read argument 2, which it does not state}}
    func.func @adds(%a: memref<128x64xbf16>, %b: memref<128x64xbf16>, %c: memref<128x128xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.template = "matmul", nano.reads = array<i64: 0, 1>, nano.writes = array<i64: 2>,
                    nano.operands = array<i64: 0, 1>, nano.results = [array<i64: 2>], nano.added = array<i64: 0>} {
      return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{has a tensor map of 129 rows of 64 elements, 128 bytes apart, which reaches beyond the 16384 bytes of argument 0}}
    func.func @map(%a: memref<128x64xbf16>, %c: memref<8xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.template = "matmul", nano.reads = array<i64: 0>, nano.writes = array<i64: 1>,
                    nano.operands = array<i64: 0>, nano.results = [array<i64: 1>],
                    nano.tensor_maps = [array<i64: 0, 64, 129, 128, 64, 128, 128>]} {
      return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{which the copy engine does not take}}
    func.func @box(%a: memref<128x64xbf16>, %c: memref<8xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {nano.kernel, nano.template = "matmul", nano.reads = array<i64: 0>, nano.writes = array<i64: 1>,
                    nano.operands = array<i64: 0>, nano.results = [array<i64: 1>],
                    nano.tensor_maps = [array<i64: 0, 64, 128, 128, 64, 512, 128>]} {
      return
    }
  }
}
