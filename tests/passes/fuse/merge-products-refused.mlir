// Products that would have to be copied for it, or be held in memory for it, stay apart.
// RUN: nano-opt %s -split-input-file -verify-diagnostics -nano-merge-products="machine=h200-nvlink report" | FileCheck %s

// Weights that are multiplied as they are stored: side by side they would be a copy.
// CHECK-LABEL: nano.program @stored
// CHECK-COUNT-2: nano.matmul
// CHECK-NOT:     nano.concat
nano.program @stored(%x: tensor<4096x1024xbf16>, %v: tensor<256x1024xbf16>, %w: tensor<256x1024xbf16>) -> tensor<4096x256xbf16> {
  // expected-remark @+1 {{apart from others of the same operand: its weight is not made by a kernel for products alone}}
  %y = nano.matmul %x, %v {transpose_b} : (tensor<4096x1024xbf16>, tensor<256x1024xbf16>) -> tensor<4096x256xbf16>
  // expected-remark @+1 {{apart from others of the same operand: its weight is not made by a kernel for products alone}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<4096x1024xbf16>, tensor<256x1024xbf16>) -> tensor<4096x256xbf16>
  %s = nano.fused(%y, %z) : (tensor<4096x256xbf16>, tensor<4096x256xbf16>) -> tensor<4096x256xbf16> {
  ^bb0(%a: tensor<4096x256xbf16>, %b: tensor<4096x256xbf16>):
    %c = nano.mul %a, %b : tensor<4096x256xbf16>
    nano.yield %c : tensor<4096x256xbf16>
  }
  nano.return %s : tensor<4096x256xbf16>
}

// -----

// One result is the program's: as a slice it would be copied there. Rows of 24 bytes begin inside of what memory moves. One alone is left.
// CHECK-LABEL: nano.program @returned
// CHECK-COUNT-3: nano.matmul
// CHECK-NOT:     nano.slice
nano.program @returned(%x: tensor<4096x1024xbf16>, %u: tensor<256x1024xf32>, %v: tensor<256x1024xf32>, %w: tensor<12x1024xf32>) -> (tensor<4096x256xbf16>, tensor<4096x256xbf16>, tensor<4096x12xbf16>) {
  %w3:3 = nano.fused(%u, %v, %w) : (tensor<256x1024xf32>, tensor<256x1024xf32>, tensor<12x1024xf32>) -> (tensor<256x1024xbf16>, tensor<256x1024xbf16>, tensor<12x1024xbf16>) {
  ^bb0(%a: tensor<256x1024xf32>, %b: tensor<256x1024xf32>, %c: tensor<12x1024xf32>):
    %d = nano.cast %a : tensor<256x1024xf32> -> tensor<256x1024xbf16>
    %e = nano.cast %b : tensor<256x1024xf32> -> tensor<256x1024xbf16>
    %f = nano.cast %c : tensor<12x1024xf32> -> tensor<12x1024xbf16>
    nano.yield %d, %e, %f : tensor<256x1024xbf16>, tensor<256x1024xbf16>, tensor<12x1024xbf16>
  }
  %y = nano.matmul %x, %w3#0 {transpose_b} : (tensor<4096x1024xbf16>, tensor<256x1024xbf16>) -> tensor<4096x256xbf16>
  // expected-remark @+1 {{apart from others of the same operand: what reads it needs rows that lie one behind the other}}
  %z = nano.matmul %x, %w3#1 {transpose_b} : (tensor<4096x1024xbf16>, tensor<256x1024xbf16>) -> tensor<4096x256xbf16>
  // expected-remark @+1 {{apart from others of the same operand: its rows are no multiple of 32 bytes}}
  %n = nano.matmul %x, %w3#2 {transpose_b} : (tensor<4096x1024xbf16>, tensor<12x1024xbf16>) -> tensor<4096x12xbf16>
  %s:2 = nano.fused(%y, %n) : (tensor<4096x256xbf16>, tensor<4096x12xbf16>) -> (tensor<4096x256xbf16>, tensor<4096x12xbf16>) {
  ^bb0(%a: tensor<4096x256xbf16>, %b: tensor<4096x12xbf16>):
    %c = nano.neg %a : tensor<4096x256xbf16>
    %d = nano.neg %b : tensor<4096x12xbf16>
    nano.yield %c, %d : tensor<4096x256xbf16>, tensor<4096x12xbf16>
  }
  nano.return %s#0, %z, %s#1 : tensor<4096x256xbf16>, tensor<4096x256xbf16>, tensor<4096x12xbf16>
}

// -----

// %z is read after %big lives: as parts of one, %y would live with it too. In a sum, a left operand that is a product's result, or that a concat has already, lies where it must.
// CHECK-LABEL: nano.program @held
// CHECK-COUNT-5: nano.matmul
nano.program @held(%x: tensor<4096x1024xbf16>, %v: tensor<256x1024xf32>, %w: tensor<256x1024xf32>) -> (tensor<4096x1024xbf16>, tensor<4096x256xbf16>) {
  %ws:2 = nano.fused(%v, %w) : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> (tensor<256x1024xbf16>, tensor<256x1024xbf16>) {
  ^bb0(%a: tensor<256x1024xf32>, %b: tensor<256x1024xf32>):
    %d = nano.cast %a : tensor<256x1024xf32> -> tensor<256x1024xbf16>
    %e = nano.cast %b : tensor<256x1024xf32> -> tensor<256x1024xbf16>
    nano.yield %d, %e : tensor<256x1024xbf16>, tensor<256x1024xbf16>
  }
  %y = nano.matmul %x, %ws#0 {transpose_b} : (tensor<4096x1024xbf16>, tensor<256x1024xbf16>) -> tensor<4096x256xbf16>
  // expected-remark @+1 {{apart from others of the same operand: the others would be held in memory as long as it is}}
  %z = nano.matmul %x, %ws#1 {transpose_b} : (tensor<4096x1024xbf16>, tensor<256x1024xbf16>) -> tensor<4096x256xbf16>
  %n = nano.fused(%y) : (tensor<4096x256xbf16>) -> tensor<4096x256xbf16> {
  ^bb0(%a: tensor<4096x256xbf16>):
    %c = nano.neg %a : tensor<4096x256xbf16>
    nano.yield %c : tensor<4096x256xbf16>
  }
  %big = nano.matmul %n, %n {transpose_b} : (tensor<4096x256xbf16>, tensor<4096x256xbf16>) -> tensor<4096x4096xbf16>
  %small = nano.fused(%big) : (tensor<4096x4096xbf16>) -> tensor<4096x256xbf16> {
  ^bb0(%a: tensor<4096x4096xbf16>):
    %c = nano.slice %a dim 1 at 0 : tensor<4096x4096xbf16> -> tensor<4096x256xbf16>
    nano.yield %c : tensor<4096x256xbf16>
  }
  %m = nano.fused(%z, %small) : (tensor<4096x256xbf16>, tensor<4096x256xbf16>) -> tensor<4096x256xbf16> {
  ^bb0(%a: tensor<4096x256xbf16>, %b: tensor<4096x256xbf16>):
    %c = nano.mul %a, %b : tensor<4096x256xbf16>
    nano.yield %c : tensor<4096x256xbf16>
  }
  // expected-remark @+1 {{apart from others of the same sum: its left operand cannot be made as a part of wider rows}}
  %one = nano.matmul %m, %ws#0 : (tensor<4096x256xbf16>, tensor<256x1024xbf16>) -> tensor<4096x1024xbf16>
  // expected-remark @+1 {{apart from others of the same sum: its left operand cannot be made as a part of wider rows}}
  %two = nano.matmul %z, %ws#1 add %one : (tensor<4096x256xbf16>, tensor<256x1024xbf16>, tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
  nano.return %two, %m : tensor<4096x1024xbf16>, tensor<4096x256xbf16>
}
