// RUN: not nano-opt %s -nano-schedule=machine=h99 2>&1 | FileCheck %s --check-prefix=MACHINE
// RUN: not nano-opt %s -nano-schedule=machine=h100-nvlink 2>&1 | FileCheck %s --check-prefix=NODE
// RUN: not nano-opt %s -nano-schedule=times=%t.none 2>&1 | FileCheck %s --check-prefix=TIMES
// RUN: not nano-opt %s -nano-schedule=memory-growth=-1 2>&1 | FileCheck %s --check-prefix=GROWTH
// MACHINE: error: {{.*}}h99{{.*}}h100-nvlink
// NODE: error: machine h100-nvlink: 16 ranks do not fit into its one node of 8; take a machine with a network
// TIMES: error: {{.*}}.none: cannot be read: No such file or directory
// GROWTH: error: nano-schedule: memory-growth -1{{.*}} is no share: 0 or more, 0.02 is 2%

module {
  nano.model "m" {world = 16 : i64, group = 8 : i64}
  step.program @p {
    %x = step.buffer "x" : memref<8xf32>
    step.fill %x : memref<8xf32>
    step.all_reduce %x : memref<8xf32>
  }
}
