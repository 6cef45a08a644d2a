// Where a group would write a tensor for another that it can make from fewer bytes, the other makes it again.
// RUN: nano-opt %s -nano-fuse -nano-verify-fused -split-input-file | FileCheck %s

// x − mean in f32 is read from the norm's bf16 x and the means, one a row, and crosses memory nowhere.
// CHECK-LABEL: nano.program @centered
// CHECK:       %[[X:.*]] = nano.matmul
// CHECK:       %[[NORM:.*]]:2 = nano.fused(%[[X]]) : (tensor<8192x768xbf16>) -> (tensor<8192xf32>, tensor<8192x768xbf16>) {
// CHECK:       nano.fused(%arg2, %[[NORM]]#0, %[[X]]) : (tensor<8192x768xbf16>, tensor<8192xf32>, tensor<8192x768xbf16>) -> tensor<128x768xf32> {
// CHECK:         nano.sub
// CHECK:         nano.reduce sum
nano.program @centered(%p: tensor<8192x64xbf16>, %w: tensor<64x768xbf16>, %g: tensor<8192x768xbf16>) -> (tensor<8192x768xbf16>, tensor<768xf32>) {
  %x = nano.matmul %p, %w : (tensor<8192x64xbf16>, tensor<64x768xbf16>) -> tensor<8192x768xbf16>
  %f = nano.cast %x : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %s = nano.reduce sum %f dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %c = nano.constant 0.001 : tensor<8192xf32>
  %m = nano.mul %s, %c : tensor<8192xf32>
  %b = nano.broadcast %m dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %d = nano.sub %f, %b : tensor<8192x768xf32>
  %q = nano.mul %d, %d : tensor<8192x768xf32>
  %v = nano.reduce sum %q dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %r = nano.rsqrt %v : tensor<8192xf32>
  %rb = nano.broadcast %r dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %n = nano.mul %d, %rb : tensor<8192x768xf32>
  %y = nano.cast %n : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %gf = nano.cast %g : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %h = nano.mul %gf, %d : tensor<8192x768xf32>
  %sum = nano.reduce sum %h dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %y, %sum : tensor<8192x768xbf16>, tensor<768xf32>
}

// -----

// What is dear to compute is written: an exponential is made once.
// CHECK-LABEL: nano.program @dear
// CHECK:       %[[BOTH:.*]]:2 = nano.fused(%{{.*}}) : (tensor<8192x768xbf16>) -> (tensor<8192x768xf32>, tensor<128x768xf32>) {
// CHECK:         nano.exp
// CHECK:       nano.fused(%[[BOTH]]#0) : (tensor<8192x768xf32>) -> tensor<8192x768xbf16> {
// CHECK-NOT:     nano.exp
// CHECK:       nano.return
nano.program @dear(%p: tensor<8192x64xbf16>, %w: tensor<64x768xbf16>) -> (tensor<8192x768xbf16>, tensor<768xf32>) {
  %x = nano.matmul %p, %w : (tensor<8192x64xbf16>, tensor<64x768xbf16>) -> tensor<8192x768xbf16>
  %f = nano.cast %x : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %d = nano.exp %f : tensor<8192x768xf32>
  %s = nano.reduce sum %d dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %b = nano.broadcast %s dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %n = nano.mul %d, %b : tensor<8192x768xf32>
  %y = nano.cast %n : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %sum = nano.reduce sum %d dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %y, %sum : tensor<8192x768xbf16>, tensor<768xf32>
}

// -----

// What is made again may itself come from what was: each row without its largest number, again and again. All are made from x, up to the third, which is as much as is worth making again.
// CHECK-LABEL: nano.program @chain
// CHECK:         %[[X:.*]] = nano.matmul
// CHECK-COUNT-3: nano.fused({{.*}}%[[X]]) : ({{.*}}) -> tensor<8192xbf16> {
// CHECK:         %[[THIRD:.*]]:2 = nano.fused({{.*}}%[[X]]) :
// CHECK:         nano.fused(%{{[0-9]+}}, %[[THIRD]]#0) : (tensor<8192xbf16>, tensor<8192x768xbf16>) -> tensor<8192xbf16> {
// CHECK-NOT:     nano.fused
// CHECK:         nano.return
nano.program @chain(%p: tensor<8192x64xbf16>, %w: tensor<64x768xbf16>) -> tensor<8192xbf16> {
  %x = nano.matmul %p, %w : (tensor<8192x64xbf16>, tensor<64x768xbf16>) -> tensor<8192x768xbf16>
  %lowest = nano.constant 0xFFF0000000000000 : tensor<8192x768xbf16>
  %r1 = nano.reduce max %x dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  %a1 = nano.all_reduce %r1 : tensor<8192xbf16>
  %b1 = nano.broadcast %a1 dims [0] : tensor<8192xbf16> -> tensor<8192x768xbf16>
  %s1 = nano.select eq, %x, %b1, %lowest, %x : tensor<8192x768xbf16>, tensor<8192x768xbf16>
  %r2 = nano.reduce max %s1 dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  %a2 = nano.all_reduce %r2 : tensor<8192xbf16>
  %b2 = nano.broadcast %a2 dims [0] : tensor<8192xbf16> -> tensor<8192x768xbf16>
  %s2 = nano.select eq, %s1, %b2, %lowest, %s1 : tensor<8192x768xbf16>, tensor<8192x768xbf16>
  %r3 = nano.reduce max %s2 dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  %a3 = nano.all_reduce %r3 : tensor<8192xbf16>
  %b3 = nano.broadcast %a3 dims [0] : tensor<8192xbf16> -> tensor<8192x768xbf16>
  %s3 = nano.select eq, %s2, %b3, %lowest, %s2 : tensor<8192x768xbf16>, tensor<8192x768xbf16>
  %r4 = nano.reduce max %s3 dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  %a4 = nano.all_reduce %r4 : tensor<8192xbf16>
  %b4 = nano.broadcast %a4 dims [0] : tensor<8192xbf16> -> tensor<8192x768xbf16>
  %s4 = nano.select eq, %s3, %b4, %lowest, %s3 : tensor<8192x768xbf16>, tensor<8192x768xbf16>
  %r5 = nano.reduce max %s4 dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  nano.return %r5 : tensor<8192xbf16>
}

// -----

// What a product and a bias add up to is not written for a reader far behind, the derivative of what the kernel makes of it in 8 bits: the product, which is in memory, lives as long instead.
// CHECK-LABEL: nano.program @behind
// CHECK:       %[[P:.*]] = nano.matmul
// CHECK:       nano.fused(%[[P]], {{.*}}) : (tensor<8192x768xbf16>, tensor<768xf32>) -> tensor<8192x768xf8E4M3FN> {
// CHECK:       nano.fused({{.*}}%[[P]]{{.*}}) : ({{.*}}) -> tensor<8192x768xbf16> {
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @bias : tensor<768xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
nano.program @behind(%x: tensor<8192x64xbf16>, %v: tensor<64x768xbf16>, %g: tensor<8192x768xbf16>, %w: tensor<4x64xf32>) -> (tensor<8192x768xf8E4M3FN>, tensor<4x64xf32>, tensor<8192x768xbf16>) {
  %p = nano.matmul %x, %v : (tensor<8192x64xbf16>, tensor<64x768xbf16>) -> tensor<8192x768xbf16>
  %bias = nano.load @bias : tensor<768xf32>
  %f = nano.cast %p : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %c = nano.broadcast %bias dims [1] : tensor<768xf32> -> tensor<8192x768xf32>
  %s = nano.add %f, %c : tensor<8192x768xf32>
  %h = nano.cast %s : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %e = nano.exp %h : tensor<8192x768xbf16>
  %q = nano.cast %e : tensor<8192x768xbf16> -> tensor<8192x768xf8E4M3FN>
  %n0 = nano.neg %w : tensor<4x64xf32> %n1 = nano.neg %n0 : tensor<4x64xf32> %n2 = nano.neg %n1 : tensor<4x64xf32> %n3 = nano.neg %n2 : tensor<4x64xf32>
  %n4 = nano.neg %n3 : tensor<4x64xf32> %n5 = nano.neg %n4 : tensor<4x64xf32> %n6 = nano.neg %n5 : tensor<4x64xf32> %n7 = nano.neg %n6 : tensor<4x64xf32>
  %n8 = nano.neg %n7 : tensor<4x64xf32> %n9 = nano.neg %n8 : tensor<4x64xf32> %n10 = nano.neg %n9 : tensor<4x64xf32> %n11 = nano.neg %n10 : tensor<4x64xf32>
  %n12 = nano.neg %n11 : tensor<4x64xf32> %n13 = nano.neg %n12 : tensor<4x64xf32> %n14 = nano.neg %n13 : tensor<4x64xf32> %n15 = nano.neg %n14 : tensor<4x64xf32>
  %n16 = nano.neg %n15 : tensor<4x64xf32> %n17 = nano.neg %n16 : tensor<4x64xf32> %n18 = nano.neg %n17 : tensor<4x64xf32> %n19 = nano.neg %n18 : tensor<4x64xf32>
  %n20 = nano.neg %n19 : tensor<4x64xf32> %n21 = nano.neg %n20 : tensor<4x64xf32> %n22 = nano.neg %n21 : tensor<4x64xf32> %n23 = nano.neg %n22 : tensor<4x64xf32>
  %n24 = nano.neg %n23 : tensor<4x64xf32> %n25 = nano.neg %n24 : tensor<4x64xf32> %n26 = nano.neg %n25 : tensor<4x64xf32> %n27 = nano.neg %n26 : tensor<4x64xf32>
  %n28 = nano.neg %n27 : tensor<4x64xf32> %n29 = nano.neg %n28 : tensor<4x64xf32> %n30 = nano.neg %n29 : tensor<4x64xf32> %n31 = nano.neg %n30 : tensor<4x64xf32>
  %n32 = nano.neg %n31 : tensor<4x64xf32> %n33 = nano.neg %n32 : tensor<4x64xf32> %n34 = nano.neg %n33 : tensor<4x64xf32> %n35 = nano.neg %n34 : tensor<4x64xf32>
  %n36 = nano.neg %n35 : tensor<4x64xf32> %n37 = nano.neg %n36 : tensor<4x64xf32> %n38 = nano.neg %n37 : tensor<4x64xf32> %n39 = nano.neg %n38 : tensor<4x64xf32>
  %n40 = nano.neg %n39 : tensor<4x64xf32> %n41 = nano.neg %n40 : tensor<4x64xf32> %n42 = nano.neg %n41 : tensor<4x64xf32> %n43 = nano.neg %n42 : tensor<4x64xf32>
  %n44 = nano.neg %n43 : tensor<4x64xf32> %n45 = nano.neg %n44 : tensor<4x64xf32> %n46 = nano.neg %n45 : tensor<4x64xf32> %n47 = nano.neg %n46 : tensor<4x64xf32>
  %n48 = nano.neg %n47 : tensor<4x64xf32> %n49 = nano.neg %n48 : tensor<4x64xf32> %n50 = nano.neg %n49 : tensor<4x64xf32> %n51 = nano.neg %n50 : tensor<4x64xf32>
  %n52 = nano.neg %n51 : tensor<4x64xf32> %n53 = nano.neg %n52 : tensor<4x64xf32> %n54 = nano.neg %n53 : tensor<4x64xf32> %n55 = nano.neg %n54 : tensor<4x64xf32>
  %n56 = nano.neg %n55 : tensor<4x64xf32> %n57 = nano.neg %n56 : tensor<4x64xf32> %n58 = nano.neg %n57 : tensor<4x64xf32> %n59 = nano.neg %n58 : tensor<4x64xf32>
  %n60 = nano.neg %n59 : tensor<4x64xf32> %n61 = nano.neg %n60 : tensor<4x64xf32> %n62 = nano.neg %n61 : tensor<4x64xf32> %n63 = nano.neg %n62 : tensor<4x64xf32>
  %n64 = nano.neg %n63 : tensor<4x64xf32> %n65 = nano.neg %n64 : tensor<4x64xf32> %n66 = nano.neg %n65 : tensor<4x64xf32> %n67 = nano.neg %n66 : tensor<4x64xf32>
  %n68 = nano.neg %n67 : tensor<4x64xf32> %n69 = nano.neg %n68 : tensor<4x64xf32> %n70 = nano.neg %n69 : tensor<4x64xf32> %n71 = nano.neg %n70 : tensor<4x64xf32>
  %n72 = nano.neg %n71 : tensor<4x64xf32> %n73 = nano.neg %n72 : tensor<4x64xf32> %n74 = nano.neg %n73 : tensor<4x64xf32> %n75 = nano.neg %n74 : tensor<4x64xf32>
  %n76 = nano.neg %n75 : tensor<4x64xf32> %n77 = nano.neg %n76 : tensor<4x64xf32> %n78 = nano.neg %n77 : tensor<4x64xf32> %n79 = nano.neg %n78 : tensor<4x64xf32>
  %n80 = nano.neg %n79 : tensor<4x64xf32> %n81 = nano.neg %n80 : tensor<4x64xf32> %n82 = nano.neg %n81 : tensor<4x64xf32> %n83 = nano.neg %n82 : tensor<4x64xf32>
  %n84 = nano.neg %n83 : tensor<4x64xf32> %n85 = nano.neg %n84 : tensor<4x64xf32> %n86 = nano.neg %n85 : tensor<4x64xf32> %n87 = nano.neg %n86 : tensor<4x64xf32>
  %n88 = nano.neg %n87 : tensor<4x64xf32> %n89 = nano.neg %n88 : tensor<4x64xf32> %n90 = nano.neg %n89 : tensor<4x64xf32> %n91 = nano.neg %n90 : tensor<4x64xf32>
  %n92 = nano.neg %n91 : tensor<4x64xf32> %n93 = nano.neg %n92 : tensor<4x64xf32> %n94 = nano.neg %n93 : tensor<4x64xf32> %n95 = nano.neg %n94 : tensor<4x64xf32>
  %n96 = nano.neg %n95 : tensor<4x64xf32> %n97 = nano.neg %n96 : tensor<4x64xf32> %n98 = nano.neg %n97 : tensor<4x64xf32> %n99 = nano.neg %n98 : tensor<4x64xf32>
  %n100 = nano.neg %n99 : tensor<4x64xf32> %n101 = nano.neg %n100 : tensor<4x64xf32> %n102 = nano.neg %n101 : tensor<4x64xf32> %n103 = nano.neg %n102 : tensor<4x64xf32>
  %d = nano.mul %h, %g : tensor<8192x768xbf16>
  nano.return %q, %n103, %d : tensor<8192x768xf8E4M3FN>, tensor<4x64xf32>, tensor<8192x768xbf16>
}

// -----

// It is where the kernel could be the product's own, which then is not in memory; and where the bias changes meanwhile.
// CHECK-LABEL: nano.program @own
// CHECK:       nano.fused({{.*}}) : (tensor<8192x768xbf16>, tensor<768xf32>) -> (tensor<8192x768xbf16>, tensor<8192x768xbf16>) {
// CHECK-LABEL: nano.program @changed
// CHECK:       nano.fused({{.*}}) : (tensor<8192x768xbf16>, tensor<768xf32>) -> (tensor<8192x768xbf16>, tensor<8192x768xf8E4M3FN>) {
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @bias : tensor<768xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
nano.program @own(%x: tensor<8192x64xbf16>, %v: tensor<64x768xbf16>, %g: tensor<8192x768xbf16>, %w: tensor<4x64xf32>) -> (tensor<8192x768xbf16>, tensor<4x64xf32>, tensor<8192x768xbf16>) {
  %p = nano.matmul %x, %v : (tensor<8192x64xbf16>, tensor<64x768xbf16>) -> tensor<8192x768xbf16>
  %bias = nano.load @bias : tensor<768xf32>
  %f = nano.cast %p : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %c = nano.broadcast %bias dims [1] : tensor<768xf32> -> tensor<8192x768xf32>
  %s = nano.add %f, %c : tensor<8192x768xf32>
  %h = nano.cast %s : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %q = nano.exp %h : tensor<8192x768xbf16>
  %n0 = nano.neg %w : tensor<4x64xf32> %n1 = nano.neg %n0 : tensor<4x64xf32> %n2 = nano.neg %n1 : tensor<4x64xf32> %n3 = nano.neg %n2 : tensor<4x64xf32>
  %n4 = nano.neg %n3 : tensor<4x64xf32> %n5 = nano.neg %n4 : tensor<4x64xf32> %n6 = nano.neg %n5 : tensor<4x64xf32> %n7 = nano.neg %n6 : tensor<4x64xf32>
  %n8 = nano.neg %n7 : tensor<4x64xf32> %n9 = nano.neg %n8 : tensor<4x64xf32> %n10 = nano.neg %n9 : tensor<4x64xf32> %n11 = nano.neg %n10 : tensor<4x64xf32>
  %n12 = nano.neg %n11 : tensor<4x64xf32> %n13 = nano.neg %n12 : tensor<4x64xf32> %n14 = nano.neg %n13 : tensor<4x64xf32> %n15 = nano.neg %n14 : tensor<4x64xf32>
  %n16 = nano.neg %n15 : tensor<4x64xf32> %n17 = nano.neg %n16 : tensor<4x64xf32> %n18 = nano.neg %n17 : tensor<4x64xf32> %n19 = nano.neg %n18 : tensor<4x64xf32>
  %n20 = nano.neg %n19 : tensor<4x64xf32> %n21 = nano.neg %n20 : tensor<4x64xf32> %n22 = nano.neg %n21 : tensor<4x64xf32> %n23 = nano.neg %n22 : tensor<4x64xf32>
  %n24 = nano.neg %n23 : tensor<4x64xf32> %n25 = nano.neg %n24 : tensor<4x64xf32> %n26 = nano.neg %n25 : tensor<4x64xf32> %n27 = nano.neg %n26 : tensor<4x64xf32>
  %n28 = nano.neg %n27 : tensor<4x64xf32> %n29 = nano.neg %n28 : tensor<4x64xf32> %n30 = nano.neg %n29 : tensor<4x64xf32> %n31 = nano.neg %n30 : tensor<4x64xf32>
  %n32 = nano.neg %n31 : tensor<4x64xf32> %n33 = nano.neg %n32 : tensor<4x64xf32> %n34 = nano.neg %n33 : tensor<4x64xf32> %n35 = nano.neg %n34 : tensor<4x64xf32>
  %n36 = nano.neg %n35 : tensor<4x64xf32> %n37 = nano.neg %n36 : tensor<4x64xf32> %n38 = nano.neg %n37 : tensor<4x64xf32> %n39 = nano.neg %n38 : tensor<4x64xf32>
  %n40 = nano.neg %n39 : tensor<4x64xf32> %n41 = nano.neg %n40 : tensor<4x64xf32> %n42 = nano.neg %n41 : tensor<4x64xf32> %n43 = nano.neg %n42 : tensor<4x64xf32>
  %n44 = nano.neg %n43 : tensor<4x64xf32> %n45 = nano.neg %n44 : tensor<4x64xf32> %n46 = nano.neg %n45 : tensor<4x64xf32> %n47 = nano.neg %n46 : tensor<4x64xf32>
  %n48 = nano.neg %n47 : tensor<4x64xf32> %n49 = nano.neg %n48 : tensor<4x64xf32> %n50 = nano.neg %n49 : tensor<4x64xf32> %n51 = nano.neg %n50 : tensor<4x64xf32>
  %n52 = nano.neg %n51 : tensor<4x64xf32> %n53 = nano.neg %n52 : tensor<4x64xf32> %n54 = nano.neg %n53 : tensor<4x64xf32> %n55 = nano.neg %n54 : tensor<4x64xf32>
  %n56 = nano.neg %n55 : tensor<4x64xf32> %n57 = nano.neg %n56 : tensor<4x64xf32> %n58 = nano.neg %n57 : tensor<4x64xf32> %n59 = nano.neg %n58 : tensor<4x64xf32>
  %n60 = nano.neg %n59 : tensor<4x64xf32> %n61 = nano.neg %n60 : tensor<4x64xf32> %n62 = nano.neg %n61 : tensor<4x64xf32> %n63 = nano.neg %n62 : tensor<4x64xf32>
  %n64 = nano.neg %n63 : tensor<4x64xf32> %n65 = nano.neg %n64 : tensor<4x64xf32> %n66 = nano.neg %n65 : tensor<4x64xf32> %n67 = nano.neg %n66 : tensor<4x64xf32>
  %n68 = nano.neg %n67 : tensor<4x64xf32> %n69 = nano.neg %n68 : tensor<4x64xf32> %n70 = nano.neg %n69 : tensor<4x64xf32> %n71 = nano.neg %n70 : tensor<4x64xf32>
  %n72 = nano.neg %n71 : tensor<4x64xf32> %n73 = nano.neg %n72 : tensor<4x64xf32> %n74 = nano.neg %n73 : tensor<4x64xf32> %n75 = nano.neg %n74 : tensor<4x64xf32>
  %n76 = nano.neg %n75 : tensor<4x64xf32> %n77 = nano.neg %n76 : tensor<4x64xf32> %n78 = nano.neg %n77 : tensor<4x64xf32> %n79 = nano.neg %n78 : tensor<4x64xf32>
  %n80 = nano.neg %n79 : tensor<4x64xf32> %n81 = nano.neg %n80 : tensor<4x64xf32> %n82 = nano.neg %n81 : tensor<4x64xf32> %n83 = nano.neg %n82 : tensor<4x64xf32>
  %n84 = nano.neg %n83 : tensor<4x64xf32> %n85 = nano.neg %n84 : tensor<4x64xf32> %n86 = nano.neg %n85 : tensor<4x64xf32> %n87 = nano.neg %n86 : tensor<4x64xf32>
  %n88 = nano.neg %n87 : tensor<4x64xf32> %n89 = nano.neg %n88 : tensor<4x64xf32> %n90 = nano.neg %n89 : tensor<4x64xf32> %n91 = nano.neg %n90 : tensor<4x64xf32>
  %n92 = nano.neg %n91 : tensor<4x64xf32> %n93 = nano.neg %n92 : tensor<4x64xf32> %n94 = nano.neg %n93 : tensor<4x64xf32> %n95 = nano.neg %n94 : tensor<4x64xf32>
  %n96 = nano.neg %n95 : tensor<4x64xf32> %n97 = nano.neg %n96 : tensor<4x64xf32> %n98 = nano.neg %n97 : tensor<4x64xf32> %n99 = nano.neg %n98 : tensor<4x64xf32>
  %n100 = nano.neg %n99 : tensor<4x64xf32> %n101 = nano.neg %n100 : tensor<4x64xf32> %n102 = nano.neg %n101 : tensor<4x64xf32> %n103 = nano.neg %n102 : tensor<4x64xf32>
  %d = nano.mul %h, %g : tensor<8192x768xbf16>
  nano.return %q, %n103, %d : tensor<8192x768xbf16>, tensor<4x64xf32>, tensor<8192x768xbf16>
}
nano.program @changed(%x: tensor<8192x64xbf16>, %v: tensor<64x768xbf16>, %g: tensor<8192x768xbf16>, %w: tensor<4x64xf32>) -> (tensor<8192x768xf8E4M3FN>, tensor<4x64xf32>, tensor<8192x768xbf16>) {
  %p = nano.matmul %x, %v : (tensor<8192x64xbf16>, tensor<64x768xbf16>) -> tensor<8192x768xbf16>
  %bias = nano.load @bias : tensor<768xf32>
  %f = nano.cast %p : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %c = nano.broadcast %bias dims [1] : tensor<768xf32> -> tensor<8192x768xf32>
  %s = nano.add %f, %c : tensor<8192x768xf32>
  %h = nano.cast %s : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %e = nano.exp %h : tensor<8192x768xbf16>
  %q = nano.cast %e : tensor<8192x768xbf16> -> tensor<8192x768xf8E4M3FN>
  %zero = nano.constant 0.0 : tensor<768xf32>
  nano.store %zero, @bias : tensor<768xf32>
  %n0 = nano.neg %w : tensor<4x64xf32> %n1 = nano.neg %n0 : tensor<4x64xf32> %n2 = nano.neg %n1 : tensor<4x64xf32> %n3 = nano.neg %n2 : tensor<4x64xf32>
  %n4 = nano.neg %n3 : tensor<4x64xf32> %n5 = nano.neg %n4 : tensor<4x64xf32> %n6 = nano.neg %n5 : tensor<4x64xf32> %n7 = nano.neg %n6 : tensor<4x64xf32>
  %n8 = nano.neg %n7 : tensor<4x64xf32> %n9 = nano.neg %n8 : tensor<4x64xf32> %n10 = nano.neg %n9 : tensor<4x64xf32> %n11 = nano.neg %n10 : tensor<4x64xf32>
  %n12 = nano.neg %n11 : tensor<4x64xf32> %n13 = nano.neg %n12 : tensor<4x64xf32> %n14 = nano.neg %n13 : tensor<4x64xf32> %n15 = nano.neg %n14 : tensor<4x64xf32>
  %n16 = nano.neg %n15 : tensor<4x64xf32> %n17 = nano.neg %n16 : tensor<4x64xf32> %n18 = nano.neg %n17 : tensor<4x64xf32> %n19 = nano.neg %n18 : tensor<4x64xf32>
  %n20 = nano.neg %n19 : tensor<4x64xf32> %n21 = nano.neg %n20 : tensor<4x64xf32> %n22 = nano.neg %n21 : tensor<4x64xf32> %n23 = nano.neg %n22 : tensor<4x64xf32>
  %n24 = nano.neg %n23 : tensor<4x64xf32> %n25 = nano.neg %n24 : tensor<4x64xf32> %n26 = nano.neg %n25 : tensor<4x64xf32> %n27 = nano.neg %n26 : tensor<4x64xf32>
  %n28 = nano.neg %n27 : tensor<4x64xf32> %n29 = nano.neg %n28 : tensor<4x64xf32> %n30 = nano.neg %n29 : tensor<4x64xf32> %n31 = nano.neg %n30 : tensor<4x64xf32>
  %n32 = nano.neg %n31 : tensor<4x64xf32> %n33 = nano.neg %n32 : tensor<4x64xf32> %n34 = nano.neg %n33 : tensor<4x64xf32> %n35 = nano.neg %n34 : tensor<4x64xf32>
  %n36 = nano.neg %n35 : tensor<4x64xf32> %n37 = nano.neg %n36 : tensor<4x64xf32> %n38 = nano.neg %n37 : tensor<4x64xf32> %n39 = nano.neg %n38 : tensor<4x64xf32>
  %n40 = nano.neg %n39 : tensor<4x64xf32> %n41 = nano.neg %n40 : tensor<4x64xf32> %n42 = nano.neg %n41 : tensor<4x64xf32> %n43 = nano.neg %n42 : tensor<4x64xf32>
  %n44 = nano.neg %n43 : tensor<4x64xf32> %n45 = nano.neg %n44 : tensor<4x64xf32> %n46 = nano.neg %n45 : tensor<4x64xf32> %n47 = nano.neg %n46 : tensor<4x64xf32>
  %n48 = nano.neg %n47 : tensor<4x64xf32> %n49 = nano.neg %n48 : tensor<4x64xf32> %n50 = nano.neg %n49 : tensor<4x64xf32> %n51 = nano.neg %n50 : tensor<4x64xf32>
  %n52 = nano.neg %n51 : tensor<4x64xf32> %n53 = nano.neg %n52 : tensor<4x64xf32> %n54 = nano.neg %n53 : tensor<4x64xf32> %n55 = nano.neg %n54 : tensor<4x64xf32>
  %n56 = nano.neg %n55 : tensor<4x64xf32> %n57 = nano.neg %n56 : tensor<4x64xf32> %n58 = nano.neg %n57 : tensor<4x64xf32> %n59 = nano.neg %n58 : tensor<4x64xf32>
  %n60 = nano.neg %n59 : tensor<4x64xf32> %n61 = nano.neg %n60 : tensor<4x64xf32> %n62 = nano.neg %n61 : tensor<4x64xf32> %n63 = nano.neg %n62 : tensor<4x64xf32>
  %n64 = nano.neg %n63 : tensor<4x64xf32> %n65 = nano.neg %n64 : tensor<4x64xf32> %n66 = nano.neg %n65 : tensor<4x64xf32> %n67 = nano.neg %n66 : tensor<4x64xf32>
  %n68 = nano.neg %n67 : tensor<4x64xf32> %n69 = nano.neg %n68 : tensor<4x64xf32> %n70 = nano.neg %n69 : tensor<4x64xf32> %n71 = nano.neg %n70 : tensor<4x64xf32>
  %n72 = nano.neg %n71 : tensor<4x64xf32> %n73 = nano.neg %n72 : tensor<4x64xf32> %n74 = nano.neg %n73 : tensor<4x64xf32> %n75 = nano.neg %n74 : tensor<4x64xf32>
  %n76 = nano.neg %n75 : tensor<4x64xf32> %n77 = nano.neg %n76 : tensor<4x64xf32> %n78 = nano.neg %n77 : tensor<4x64xf32> %n79 = nano.neg %n78 : tensor<4x64xf32>
  %n80 = nano.neg %n79 : tensor<4x64xf32> %n81 = nano.neg %n80 : tensor<4x64xf32> %n82 = nano.neg %n81 : tensor<4x64xf32> %n83 = nano.neg %n82 : tensor<4x64xf32>
  %n84 = nano.neg %n83 : tensor<4x64xf32> %n85 = nano.neg %n84 : tensor<4x64xf32> %n86 = nano.neg %n85 : tensor<4x64xf32> %n87 = nano.neg %n86 : tensor<4x64xf32>
  %n88 = nano.neg %n87 : tensor<4x64xf32> %n89 = nano.neg %n88 : tensor<4x64xf32> %n90 = nano.neg %n89 : tensor<4x64xf32> %n91 = nano.neg %n90 : tensor<4x64xf32>
  %n92 = nano.neg %n91 : tensor<4x64xf32> %n93 = nano.neg %n92 : tensor<4x64xf32> %n94 = nano.neg %n93 : tensor<4x64xf32> %n95 = nano.neg %n94 : tensor<4x64xf32>
  %n96 = nano.neg %n95 : tensor<4x64xf32> %n97 = nano.neg %n96 : tensor<4x64xf32> %n98 = nano.neg %n97 : tensor<4x64xf32> %n99 = nano.neg %n98 : tensor<4x64xf32>
  %n100 = nano.neg %n99 : tensor<4x64xf32> %n101 = nano.neg %n100 : tensor<4x64xf32> %n102 = nano.neg %n101 : tensor<4x64xf32> %n103 = nano.neg %n102 : tensor<4x64xf32>
  %d = nano.mul %h, %g : tensor<8192x768xbf16>
  nano.return %q, %n103, %d : tensor<8192x768xf8E4M3FN>, tensor<4x64xf32>, tensor<8192x768xbf16>
}
