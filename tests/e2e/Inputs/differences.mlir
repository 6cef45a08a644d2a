module {
  nano.model "random" {hyperparameters = [], run_stages = [{name = "a", until = 1 : i64, training = {seq_len = 8 : i64, val_seq_len = 24 : i64, gen_seq_len = 24 : i64, global_batch = 8 : i64, num_iterations = 10 : i64, vocab_size = 17 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = true, log_scalar = "lr.adams", grad_clip = 5.000000e-01 : f64, dist = "allreduce"}}, {name = "b", until = 10 : i64, training = {seq_len = 48 : i64, val_seq_len = 24 : i64, gen_seq_len = 24 : i64, global_batch = 48 : i64, num_iterations = 10 : i64, vocab_size = 17 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = true, log_scalar = "lr.adams", grad_clip = 5.000000e-01 : f64, dist = "allreduce"}}], training = {seq_len = 8 : i64, val_seq_len = 24 : i64, gen_seq_len = 24 : i64, global_batch = 8 : i64, num_iterations = 10 : i64, vocab_size = 17 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = true, log_scalar = "lr.adams", grad_clip = 5.000000e-01 : f64, dist = "allreduce"}}
nano.scalar @adams.bias1 : f32 {
^bb0(%arg0: f64, %arg1: f64, %arg2: f64, %arg3: f64):
  %cst = arith.constant 1.000000e+00 : f64
  %cst_0 = arith.constant 9.000000e-01 : f64
  %cst_1 = arith.constant 2.000000e+00 : f64
  %0 = arith.divf %arg0, %cst_1 : f64
  %1 = math.floor %0 : f64
  %2 = arith.addf %1, %cst : f64
  %3 = math.powf %cst_0, %2 : f64
  %4 = arith.subf %cst, %3 : f64
  %5 = arith.divf %cst, %4 : f64
  nano.yield %5 : f64
}
nano.scalar @adams.bias2 : f32 {
^bb0(%arg0: f64, %arg1: f64, %arg2: f64, %arg3: f64):
  %cst = arith.constant 1.000000e+00 : f64
  %cst_0 = arith.constant 0.94999999999999996 : f64
  %cst_1 = arith.constant 2.000000e+00 : f64
  %0 = arith.divf %arg0, %cst_1 : f64
  %1 = math.floor %0 : f64
  %2 = arith.addf %1, %cst : f64
  %3 = math.powf %cst_0, %2 : f64
  %4 = arith.subf %cst, %3 : f64
  %5 = math.sqrt %4 : f64
  %6 = arith.divf %cst, %5 : f64
  nano.yield %6 : f64
}
nano.scalar @lr.adams : f32 {
^bb0(%arg0: f64, %arg1: f64, %arg2: f64, %arg3: f64):
  %cst = arith.constant 1.000000e-02 : f64
  nano.yield %cst : f64
}
nano.scalar @momentum.muons : f32 {
^bb0(%arg0: f64, %arg1: f64, %arg2: f64, %arg3: f64):
  %cst = arith.constant 9.000000e-01 : f64
  nano.yield %cst : f64
}
nano.scalar @lr.muons : f32 {
^bb0(%arg0: f64, %arg1: f64, %arg2: f64, %arg3: f64):
  %cst = arith.constant 1.000000e-02 : f64
  nano.yield %cst : f64
}
nano.scalar @window : i32 {
^bb0(%arg0: f64, %arg1: f64, %arg2: f64, %arg3: f64):
  %cst = arith.constant 5.000000e+00 : f64
  %0 = arith.addf %arg0, %cst : f64
  nano.yield %0 : f64
}
nano.optimizer @muons of "muons" lr @lr.muons {inits = array<f64: 0.000000e+00>, kind = "muon", states = ["muon_b"]} by {
^bb0(%arg0: tensor<17x16xf32>, %arg1: tensor<17x16xf32>, %arg2: tensor<17x16xf32>):
  %0 = nano.load @lr.muons : tensor<f32>
  %1 = nano.sub %arg1, %arg2 : tensor<17x16xf32>
  %2 = nano.load @momentum.muons : tensor<f32>
  %3 = nano.constant 1.000000e+00 : tensor<f32>
  %4 = nano.sub %3, %2 : tensor<f32>
  %5 = nano.broadcast %4 dims [] : tensor<f32> -> tensor<17x16xf32>
  %6 = nano.mul %1, %5 : tensor<17x16xf32>
  %7 = nano.add %arg2, %6 : tensor<17x16xf32>
  %8 = nano.sub %7, %arg1 : tensor<17x16xf32>
  %9 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<17x16xf32>
  %10 = nano.mul %8, %9 : tensor<17x16xf32>
  %11 = nano.add %arg1, %10 : tensor<17x16xf32>
  %12 = nano.mul %11, %11 : tensor<17x16xf32>
  %13 = nano.reduce sum %12 dims [0, 1] : tensor<17x16xf32> -> tensor<f32>
  %14 = nano.reshape %13 : tensor<f32> -> tensor<1x1xf32>
  %15 = nano.sqrt %14 : tensor<1x1xf32>
  %16 = nano.constant 9.9999999999999995E-8 : tensor<1x1xf32>
  %17 = nano.add %15, %16 : tensor<1x1xf32>
  %18 = nano.reshape %17 : tensor<1x1xf32> -> tensor<f32>
  %19 = nano.broadcast %18 dims [] : tensor<f32> -> tensor<17x16xf32>
  %20 = nano.div %11, %19 : tensor<17x16xf32>
  %21 = nano.matmul %20, %20 {transpose_a} : (tensor<17x16xf32>, tensor<17x16xf32>) -> tensor<16x16xf32>
  %22 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %23 = nano.mul %22, %21 : tensor<16x16xf32>
  %24 = nano.matmul %21, %21 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %25 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %26 = nano.mul %25, %24 : tensor<16x16xf32>
  %27 = nano.add %23, %26 : tensor<16x16xf32>
  %28 = nano.constant 3.444500e+00 : tensor<17x16xf32>
  %29 = nano.mul %28, %20 : tensor<17x16xf32>
  %30 = nano.matmul %20, %27 : (tensor<17x16xf32>, tensor<16x16xf32>) -> tensor<17x16xf32>
  %31 = nano.add %29, %30 : tensor<17x16xf32>
  %32 = nano.matmul %31, %31 {transpose_a} : (tensor<17x16xf32>, tensor<17x16xf32>) -> tensor<16x16xf32>
  %33 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %34 = nano.mul %33, %32 : tensor<16x16xf32>
  %35 = nano.matmul %32, %32 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %36 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %37 = nano.mul %36, %35 : tensor<16x16xf32>
  %38 = nano.add %34, %37 : tensor<16x16xf32>
  %39 = nano.constant 3.444500e+00 : tensor<17x16xf32>
  %40 = nano.mul %39, %31 : tensor<17x16xf32>
  %41 = nano.matmul %31, %38 : (tensor<17x16xf32>, tensor<16x16xf32>) -> tensor<17x16xf32>
  %42 = nano.add %40, %41 : tensor<17x16xf32>
  %43 = nano.matmul %42, %42 {transpose_a} : (tensor<17x16xf32>, tensor<17x16xf32>) -> tensor<16x16xf32>
  %44 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %45 = nano.mul %44, %43 : tensor<16x16xf32>
  %46 = nano.matmul %43, %43 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %47 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %48 = nano.mul %47, %46 : tensor<16x16xf32>
  %49 = nano.add %45, %48 : tensor<16x16xf32>
  %50 = nano.constant 3.444500e+00 : tensor<17x16xf32>
  %51 = nano.mul %50, %42 : tensor<17x16xf32>
  %52 = nano.matmul %42, %49 : (tensor<17x16xf32>, tensor<16x16xf32>) -> tensor<17x16xf32>
  %53 = nano.add %51, %52 : tensor<17x16xf32>
  %54 = nano.matmul %53, %53 {transpose_a} : (tensor<17x16xf32>, tensor<17x16xf32>) -> tensor<16x16xf32>
  %55 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %56 = nano.mul %55, %54 : tensor<16x16xf32>
  %57 = nano.matmul %54, %54 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %58 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %59 = nano.mul %58, %57 : tensor<16x16xf32>
  %60 = nano.add %56, %59 : tensor<16x16xf32>
  %61 = nano.constant 3.444500e+00 : tensor<17x16xf32>
  %62 = nano.mul %61, %53 : tensor<17x16xf32>
  %63 = nano.matmul %53, %60 : (tensor<17x16xf32>, tensor<16x16xf32>) -> tensor<17x16xf32>
  %64 = nano.add %62, %63 : tensor<17x16xf32>
  %65 = nano.matmul %64, %64 {transpose_a} : (tensor<17x16xf32>, tensor<17x16xf32>) -> tensor<16x16xf32>
  %66 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %67 = nano.mul %66, %65 : tensor<16x16xf32>
  %68 = nano.matmul %65, %65 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %69 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %70 = nano.mul %69, %68 : tensor<16x16xf32>
  %71 = nano.add %67, %70 : tensor<16x16xf32>
  %72 = nano.constant 3.444500e+00 : tensor<17x16xf32>
  %73 = nano.mul %72, %64 : tensor<17x16xf32>
  %74 = nano.matmul %64, %71 : (tensor<17x16xf32>, tensor<16x16xf32>) -> tensor<17x16xf32>
  %75 = nano.add %73, %74 : tensor<17x16xf32>
  %76 = nano.constant 1.0307764064044151 : tensor<f32>
  %77 = nano.mul %0, %76 : tensor<f32>
  %78 = nano.broadcast %77 dims [] : tensor<f32> -> tensor<17x16xf32>
  %79 = nano.mul %75, %78 : tensor<17x16xf32>
  %80 = nano.sub %arg0, %79 : tensor<17x16xf32>
  nano.yield %80, %7 : tensor<17x16xf32>, tensor<17x16xf32>
}
nano.state @p0 : tensor<17x16xf32> {init = #nano.init<"normal", [0.000000e+00, 1.000000e+00]>, optimizer = @muons, role = #nano.role<parameter>}
nano.optimizer @adams of "adams" lr @lr.adams {every = 2 : i64, inits = array<f64: 0.000000e+00, 0.000000e+00>, kind = "adam", states = ["adam_m", "adam_v"]} by {
^bb0(%arg0: tensor<16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>):
  %0 = nano.load @lr.adams : tensor<f32>
  %1 = nano.constant 9.000000e-01 : tensor<16xf32>
  %2 = nano.mul %1, %arg2 : tensor<16xf32>
  %3 = nano.constant 0.099999999999999978 : tensor<16xf32>
  %4 = nano.mul %3, %arg1 : tensor<16xf32>
  %5 = nano.add %2, %4 : tensor<16xf32>
  %6 = nano.constant 0.94999999999999996 : tensor<16xf32>
  %7 = nano.mul %6, %arg3 : tensor<16xf32>
  %8 = nano.mul %arg1, %arg1 : tensor<16xf32>
  %9 = nano.constant 0.050000000000000044 : tensor<16xf32>
  %10 = nano.mul %9, %8 : tensor<16xf32>
  %11 = nano.add %7, %10 : tensor<16xf32>
  %12 = nano.sqrt %11 : tensor<16xf32>
  %13 = nano.load @adams.bias2 : tensor<f32>
  %14 = nano.broadcast %13 dims [] : tensor<f32> -> tensor<16xf32>
  %15 = nano.mul %12, %14 : tensor<16xf32>
  %16 = nano.load @adams.bias1 : tensor<f32>
  %17 = nano.broadcast %16 dims [] : tensor<f32> -> tensor<16xf32>
  %18 = nano.mul %5, %17 : tensor<16xf32>
  %19 = nano.constant 1.000000e-02 : tensor<16xf32>
  %20 = nano.add %15, %19 : tensor<16xf32>
  %21 = nano.div %18, %20 : tensor<16xf32>
  %22 = nano.constant 1.000000e-01 : tensor<16xf32>
  %23 = nano.mul %22, %arg0 : tensor<16xf32>
  %24 = nano.add %21, %23 : tensor<16xf32>
  %25 = nano.broadcast %0 dims [] : tensor<f32> -> tensor<16xf32>
  %26 = nano.mul %24, %25 : tensor<16xf32>
  %27 = nano.sub %arg0, %26 : tensor<16xf32>
  nano.yield %27, %5, %11 : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}
nano.state @p1 : tensor<16xf32> {init = #nano.init<"normal", [1.000000e+00, 2.000000e-01]>, optimizer = @adams, role = #nano.role<parameter>}
nano.state @p2 : tensor<16xf32> {init = #nano.init<"normal", [0.000000e+00, 2.000000e-01]>, optimizer = @adams, role = #nano.role<parameter>}
nano.optimizer @muons.1 of "muons" lr @lr.muons {inits = array<f64: 0.000000e+00>, kind = "muon", states = ["muon_b"]} by {
^bb0(%arg0: tensor<32x16xf32>, %arg1: tensor<32x16xf32>, %arg2: tensor<32x16xf32>):
  %0 = nano.load @lr.muons : tensor<f32>
  %1 = nano.sub %arg1, %arg2 : tensor<32x16xf32>
  %2 = nano.load @momentum.muons : tensor<f32>
  %3 = nano.constant 1.000000e+00 : tensor<f32>
  %4 = nano.sub %3, %2 : tensor<f32>
  %5 = nano.broadcast %4 dims [] : tensor<f32> -> tensor<32x16xf32>
  %6 = nano.mul %1, %5 : tensor<32x16xf32>
  %7 = nano.add %arg2, %6 : tensor<32x16xf32>
  %8 = nano.sub %7, %arg1 : tensor<32x16xf32>
  %9 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<32x16xf32>
  %10 = nano.mul %8, %9 : tensor<32x16xf32>
  %11 = nano.add %arg1, %10 : tensor<32x16xf32>
  %12 = nano.mul %11, %11 : tensor<32x16xf32>
  %13 = nano.reduce sum %12 dims [0, 1] : tensor<32x16xf32> -> tensor<f32>
  %14 = nano.reshape %13 : tensor<f32> -> tensor<1x1xf32>
  %15 = nano.sqrt %14 : tensor<1x1xf32>
  %16 = nano.constant 9.9999999999999995E-8 : tensor<1x1xf32>
  %17 = nano.add %15, %16 : tensor<1x1xf32>
  %18 = nano.reshape %17 : tensor<1x1xf32> -> tensor<f32>
  %19 = nano.broadcast %18 dims [] : tensor<f32> -> tensor<32x16xf32>
  %20 = nano.div %11, %19 : tensor<32x16xf32>
  %21 = nano.matmul %20, %20 {transpose_a} : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %22 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %23 = nano.mul %22, %21 : tensor<16x16xf32>
  %24 = nano.matmul %21, %21 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %25 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %26 = nano.mul %25, %24 : tensor<16x16xf32>
  %27 = nano.add %23, %26 : tensor<16x16xf32>
  %28 = nano.constant 3.444500e+00 : tensor<32x16xf32>
  %29 = nano.mul %28, %20 : tensor<32x16xf32>
  %30 = nano.matmul %20, %27 : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %31 = nano.add %29, %30 : tensor<32x16xf32>
  %32 = nano.matmul %31, %31 {transpose_a} : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %33 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %34 = nano.mul %33, %32 : tensor<16x16xf32>
  %35 = nano.matmul %32, %32 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %36 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %37 = nano.mul %36, %35 : tensor<16x16xf32>
  %38 = nano.add %34, %37 : tensor<16x16xf32>
  %39 = nano.constant 3.444500e+00 : tensor<32x16xf32>
  %40 = nano.mul %39, %31 : tensor<32x16xf32>
  %41 = nano.matmul %31, %38 : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %42 = nano.add %40, %41 : tensor<32x16xf32>
  %43 = nano.matmul %42, %42 {transpose_a} : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %44 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %45 = nano.mul %44, %43 : tensor<16x16xf32>
  %46 = nano.matmul %43, %43 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %47 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %48 = nano.mul %47, %46 : tensor<16x16xf32>
  %49 = nano.add %45, %48 : tensor<16x16xf32>
  %50 = nano.constant 3.444500e+00 : tensor<32x16xf32>
  %51 = nano.mul %50, %42 : tensor<32x16xf32>
  %52 = nano.matmul %42, %49 : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %53 = nano.add %51, %52 : tensor<32x16xf32>
  %54 = nano.matmul %53, %53 {transpose_a} : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %55 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %56 = nano.mul %55, %54 : tensor<16x16xf32>
  %57 = nano.matmul %54, %54 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %58 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %59 = nano.mul %58, %57 : tensor<16x16xf32>
  %60 = nano.add %56, %59 : tensor<16x16xf32>
  %61 = nano.constant 3.444500e+00 : tensor<32x16xf32>
  %62 = nano.mul %61, %53 : tensor<32x16xf32>
  %63 = nano.matmul %53, %60 : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %64 = nano.add %62, %63 : tensor<32x16xf32>
  %65 = nano.matmul %64, %64 {transpose_a} : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %66 = nano.constant -4.775000e+00 : tensor<16x16xf32>
  %67 = nano.mul %66, %65 : tensor<16x16xf32>
  %68 = nano.matmul %65, %65 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %69 = nano.constant 2.031500e+00 : tensor<16x16xf32>
  %70 = nano.mul %69, %68 : tensor<16x16xf32>
  %71 = nano.add %67, %70 : tensor<16x16xf32>
  %72 = nano.constant 3.444500e+00 : tensor<32x16xf32>
  %73 = nano.mul %72, %64 : tensor<32x16xf32>
  %74 = nano.matmul %64, %71 : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %75 = nano.add %73, %74 : tensor<32x16xf32>
  %76 = nano.constant 1.4142135623730951 : tensor<f32>
  %77 = nano.mul %0, %76 : tensor<f32>
  %78 = nano.broadcast %77 dims [] : tensor<f32> -> tensor<32x16xf32>
  %79 = nano.mul %75, %78 : tensor<32x16xf32>
  %80 = nano.sub %arg0, %79 : tensor<32x16xf32>
  nano.yield %80, %7 : tensor<32x16xf32>, tensor<32x16xf32>
}
nano.state @p3 : tensor<32x16xf32> {init = #nano.init<"normal", [0.000000e+00, 2.000000e-01]>, optimizer = @muons.1, role = #nano.role<parameter>}
nano.optimizer @muons.2 of "muons" lr @lr.muons {inits = array<f64: 0.000000e+00>, kind = "muon", states = ["muon_b"]} by {
^bb0(%arg0: tensor<32x32xf32>, %arg1: tensor<32x32xf32>, %arg2: tensor<32x32xf32>):
  %0 = nano.load @lr.muons : tensor<f32>
  %1 = nano.sub %arg1, %arg2 : tensor<32x32xf32>
  %2 = nano.load @momentum.muons : tensor<f32>
  %3 = nano.constant 1.000000e+00 : tensor<f32>
  %4 = nano.sub %3, %2 : tensor<f32>
  %5 = nano.broadcast %4 dims [] : tensor<f32> -> tensor<32x32xf32>
  %6 = nano.mul %1, %5 : tensor<32x32xf32>
  %7 = nano.add %arg2, %6 : tensor<32x32xf32>
  %8 = nano.sub %7, %arg1 : tensor<32x32xf32>
  %9 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<32x32xf32>
  %10 = nano.mul %8, %9 : tensor<32x32xf32>
  %11 = nano.add %arg1, %10 : tensor<32x32xf32>
  %12 = nano.mul %11, %11 : tensor<32x32xf32>
  %13 = nano.reduce sum %12 dims [0, 1] : tensor<32x32xf32> -> tensor<f32>
  %14 = nano.reshape %13 : tensor<f32> -> tensor<1x1xf32>
  %15 = nano.sqrt %14 : tensor<1x1xf32>
  %16 = nano.constant 9.9999999999999995E-8 : tensor<1x1xf32>
  %17 = nano.add %15, %16 : tensor<1x1xf32>
  %18 = nano.reshape %17 : tensor<1x1xf32> -> tensor<f32>
  %19 = nano.broadcast %18 dims [] : tensor<f32> -> tensor<32x32xf32>
  %20 = nano.div %11, %19 : tensor<32x32xf32>
  %21 = nano.matmul %20, %20 {transpose_b} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %22 = nano.constant -4.775000e+00 : tensor<32x32xf32>
  %23 = nano.mul %22, %21 : tensor<32x32xf32>
  %24 = nano.matmul %21, %21 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %25 = nano.constant 2.031500e+00 : tensor<32x32xf32>
  %26 = nano.mul %25, %24 : tensor<32x32xf32>
  %27 = nano.add %23, %26 : tensor<32x32xf32>
  %28 = nano.constant 3.444500e+00 : tensor<32x32xf32>
  %29 = nano.mul %28, %20 : tensor<32x32xf32>
  %30 = nano.matmul %27, %20 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %31 = nano.add %29, %30 : tensor<32x32xf32>
  %32 = nano.matmul %31, %31 {transpose_b} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %33 = nano.constant -4.775000e+00 : tensor<32x32xf32>
  %34 = nano.mul %33, %32 : tensor<32x32xf32>
  %35 = nano.matmul %32, %32 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %36 = nano.constant 2.031500e+00 : tensor<32x32xf32>
  %37 = nano.mul %36, %35 : tensor<32x32xf32>
  %38 = nano.add %34, %37 : tensor<32x32xf32>
  %39 = nano.constant 3.444500e+00 : tensor<32x32xf32>
  %40 = nano.mul %39, %31 : tensor<32x32xf32>
  %41 = nano.matmul %38, %31 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %42 = nano.add %40, %41 : tensor<32x32xf32>
  %43 = nano.matmul %42, %42 {transpose_b} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %44 = nano.constant -4.775000e+00 : tensor<32x32xf32>
  %45 = nano.mul %44, %43 : tensor<32x32xf32>
  %46 = nano.matmul %43, %43 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %47 = nano.constant 2.031500e+00 : tensor<32x32xf32>
  %48 = nano.mul %47, %46 : tensor<32x32xf32>
  %49 = nano.add %45, %48 : tensor<32x32xf32>
  %50 = nano.constant 3.444500e+00 : tensor<32x32xf32>
  %51 = nano.mul %50, %42 : tensor<32x32xf32>
  %52 = nano.matmul %49, %42 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %53 = nano.add %51, %52 : tensor<32x32xf32>
  %54 = nano.matmul %53, %53 {transpose_b} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %55 = nano.constant -4.775000e+00 : tensor<32x32xf32>
  %56 = nano.mul %55, %54 : tensor<32x32xf32>
  %57 = nano.matmul %54, %54 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %58 = nano.constant 2.031500e+00 : tensor<32x32xf32>
  %59 = nano.mul %58, %57 : tensor<32x32xf32>
  %60 = nano.add %56, %59 : tensor<32x32xf32>
  %61 = nano.constant 3.444500e+00 : tensor<32x32xf32>
  %62 = nano.mul %61, %53 : tensor<32x32xf32>
  %63 = nano.matmul %60, %53 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %64 = nano.add %62, %63 : tensor<32x32xf32>
  %65 = nano.matmul %64, %64 {transpose_b} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %66 = nano.constant -4.775000e+00 : tensor<32x32xf32>
  %67 = nano.mul %66, %65 : tensor<32x32xf32>
  %68 = nano.matmul %65, %65 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %69 = nano.constant 2.031500e+00 : tensor<32x32xf32>
  %70 = nano.mul %69, %68 : tensor<32x32xf32>
  %71 = nano.add %67, %70 : tensor<32x32xf32>
  %72 = nano.constant 3.444500e+00 : tensor<32x32xf32>
  %73 = nano.mul %72, %64 : tensor<32x32xf32>
  %74 = nano.matmul %71, %64 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %75 = nano.add %73, %74 : tensor<32x32xf32>
  %76 = nano.broadcast %0 dims [] : tensor<f32> -> tensor<32x32xf32>
  %77 = nano.mul %75, %76 : tensor<32x32xf32>
  %78 = nano.sub %arg0, %77 : tensor<32x32xf32>
  nano.yield %78, %7 : tensor<32x32xf32>, tensor<32x32xf32>
}
nano.state @p4 : tensor<32x32xf32> {init = #nano.init<"normal", [0.000000e+00, 0.1414213562373095]>, optimizer = @muons.2, role = #nano.role<parameter>}
  nano.scalar @sequence : i32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64, %sequence: f64, %low: f64, %high: f64):
    %n = arith.mulf %step, %sequences : f64
    %s = arith.addf %n, %sequence : f64
    nano.yield %s : f64
  }
  nano.scalar @seed : i32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64, %sequence: f64, %low: f64, %high: f64):
    nano.yield %low : f64
  }
  nano.program @train.a(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train", stages = array<i64: 0>} {
    %v0 = nano.iota 0 : tensor<8xi32>
    %v1 = nano.load @p0 : tensor<17x16xf32>
    %v2 = nano.gather %v1, %tokens : (tensor<17x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
    %v3 = nano.sigmoid %v2 : tensor<8x16xf32>
    %v4 = nano.slice %v3 dim 1 at 0 : tensor<8x16xf32> -> tensor<8x6xf32>
    %v5 = nano.slice %v3 dim 1 at 6 : tensor<8x16xf32> -> tensor<8x10xf32>
    %v6 = nano.concat %v5, %v4 dim 1 : (tensor<8x10xf32>, tensor<8x6xf32>) -> tensor<8x16xf32>
    %v7 = nano.constant -4.000000000e-01 : tensor<8x16xf32>
    %v8 = nano.min %v6, %v7 : tensor<8x16xf32>
    %v9 = nano.load @p1 : tensor<16xf32>
    %v10 = nano.broadcast %v9 dims [1] : tensor<16xf32> -> tensor<8x16xf32>
    %v11 = nano.load @p2 : tensor<16xf32>
    %v12 = nano.broadcast %v11 dims [1] : tensor<16xf32> -> tensor<8x16xf32>
    %v13 = nano.mul %v8, %v10 : tensor<8x16xf32>
    %v14 = nano.add %v13, %v12 : tensor<8x16xf32>
    %v15 = nano.reduce sum %v14 dims [0] : tensor<8x16xf32> -> tensor<16xf32>
    %v16 = nano.constant 1.250000000e-01 : tensor<16xf32>
    %v17 = nano.mul %v15, %v16 : tensor<16xf32>
    %v18 = nano.broadcast %v17 dims [1] : tensor<16xf32> -> tensor<8x16xf32>
    %v19 = nano.sub %v14, %v18 : tensor<8x16xf32>
    %v20 = nano.slice %v19 dim 1 at 0 : tensor<8x16xf32> -> tensor<8x7xf32>
    %v21 = nano.slice %v19 dim 1 at 7 : tensor<8x16xf32> -> tensor<8x9xf32>
    %v22 = nano.concat %v21, %v20 dim 1 : (tensor<8x9xf32>, tensor<8x7xf32>) -> tensor<8x16xf32>
    %v23 = nano.reduce sum %v6 dims [0] : tensor<8x16xf32> -> tensor<16xf32>
    %v24 = nano.constant 1.250000000e-01 : tensor<16xf32>
    %v25 = nano.mul %v23, %v24 : tensor<16xf32>
    %v26 = nano.broadcast %v25 dims [1] : tensor<16xf32> -> tensor<8x16xf32>
    %v27 = nano.sub %v6, %v26 : tensor<8x16xf32>
    %v28 = nano.mul %v27, %v27 : tensor<8x16xf32>
    %v29 = nano.reduce sum %v28 dims [1] : tensor<8x16xf32> -> tensor<8xf32>
    %v30 = nano.constant 6.250000000e-02 : tensor<8xf32>
    %v31 = nano.mul %v29, %v30 : tensor<8xf32>
    %v32 = nano.constant 1.000000000e-01 : tensor<8xf32>
    %v33 = nano.add %v31, %v32 : tensor<8xf32>
    %v34 = nano.rsqrt %v33 : tensor<8xf32>
    %v35 = nano.broadcast %v34 dims [0] : tensor<8xf32> -> tensor<8x16xf32>
    %v36 = nano.mul %v27, %v35 : tensor<8x16xf32>
    %v37 = nano.load @p3 : tensor<32x16xf32>
    %v38 = nano.matmul %v36, %v37 {transpose_b} : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
    %v39 = nano.mul %v38, %v38 : tensor<8x32xf32>
    %v40 = nano.reduce sum %v39 dims [1] : tensor<8x32xf32> -> tensor<8xf32>
    %v41 = nano.constant 3.125000000e-02 : tensor<8xf32>
    %v42 = nano.mul %v40, %v41 : tensor<8xf32>
    %v43 = nano.constant 1.000000000e-01 : tensor<8xf32>
    %v44 = nano.add %v42, %v43 : tensor<8xf32>
    %v45 = nano.rsqrt %v44 : tensor<8xf32>
    %v46 = nano.broadcast %v45 dims [0] : tensor<8xf32> -> tensor<8x32xf32>
    %v47 = nano.mul %v38, %v46 : tensor<8x32xf32>
    %v48 = nano.load @p4 : tensor<32x32xf32>
    %v49 = nano.matmul %v47, %v48 {transpose_b} : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
    %v50 = nano.tanh %v49 : tensor<8x32xf32>
    %v51 = nano.constant 4.000000000e+00 : tensor<8x32xf32>
    %v52 = nano.mul %v50, %v51 : tensor<8x32xf32>
    %v53:2 = nano.cross_entropy %v52, %targets : (tensor<8x32xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
    %v54 = nano.reduce sum %v53#0 dims [0] : tensor<8xf32> -> tensor<f32>
    %v55 = nano.tanh %v22 : tensor<8x16xf32>
    %v56 = nano.reduce sum %v55 dims [0, 1] : tensor<8x16xf32> -> tensor<f32>
    %v57 = nano.constant 6.250000000e-03 : tensor<f32>
    %v58 = nano.mul %v56, %v57 : tensor<f32>
    %v59 = nano.add %v54, %v58 : tensor<f32>
    nano.return %v59 : tensor<f32>
  }
  nano.program @train.b(%tokens: tensor<48xi32>, %targets: tensor<48xi32>) -> tensor<f32> attributes {role = "train", stages = array<i64: 1>} {
    %v0 = nano.iota 0 : tensor<48xi32>
    %v1 = nano.load @p0 : tensor<17x16xf32>
    %v2 = nano.gather %v1, %tokens : (tensor<17x16xf32>, tensor<48xi32>) -> tensor<48x16xf32>
    %v3 = nano.sigmoid %v2 : tensor<48x16xf32>
    %v4 = nano.slice %v3 dim 1 at 0 : tensor<48x16xf32> -> tensor<48x6xf32>
    %v5 = nano.slice %v3 dim 1 at 6 : tensor<48x16xf32> -> tensor<48x10xf32>
    %v6 = nano.concat %v5, %v4 dim 1 : (tensor<48x10xf32>, tensor<48x6xf32>) -> tensor<48x16xf32>
    %v7 = nano.constant -4.000000000e-01 : tensor<48x16xf32>
    %v8 = nano.min %v6, %v7 : tensor<48x16xf32>
    %v9 = nano.load @p1 : tensor<16xf32>
    %v10 = nano.broadcast %v9 dims [1] : tensor<16xf32> -> tensor<48x16xf32>
    %v11 = nano.load @p2 : tensor<16xf32>
    %v12 = nano.broadcast %v11 dims [1] : tensor<16xf32> -> tensor<48x16xf32>
    %v13 = nano.mul %v8, %v10 : tensor<48x16xf32>
    %v14 = nano.add %v13, %v12 : tensor<48x16xf32>
    %v15 = nano.reduce sum %v14 dims [0] : tensor<48x16xf32> -> tensor<16xf32>
    %v16 = nano.constant 2.083333333e-02 : tensor<16xf32>
    %v17 = nano.mul %v15, %v16 : tensor<16xf32>
    %v18 = nano.broadcast %v17 dims [1] : tensor<16xf32> -> tensor<48x16xf32>
    %v19 = nano.sub %v14, %v18 : tensor<48x16xf32>
    %v20 = nano.slice %v19 dim 1 at 0 : tensor<48x16xf32> -> tensor<48x7xf32>
    %v21 = nano.slice %v19 dim 1 at 7 : tensor<48x16xf32> -> tensor<48x9xf32>
    %v22 = nano.concat %v21, %v20 dim 1 : (tensor<48x9xf32>, tensor<48x7xf32>) -> tensor<48x16xf32>
    %v23 = nano.reduce sum %v6 dims [0] : tensor<48x16xf32> -> tensor<16xf32>
    %v24 = nano.constant 2.083333333e-02 : tensor<16xf32>
    %v25 = nano.mul %v23, %v24 : tensor<16xf32>
    %v26 = nano.broadcast %v25 dims [1] : tensor<16xf32> -> tensor<48x16xf32>
    %v27 = nano.sub %v6, %v26 : tensor<48x16xf32>
    %v28 = nano.mul %v27, %v27 : tensor<48x16xf32>
    %v29 = nano.reduce sum %v28 dims [1] : tensor<48x16xf32> -> tensor<48xf32>
    %v30 = nano.constant 6.250000000e-02 : tensor<48xf32>
    %v31 = nano.mul %v29, %v30 : tensor<48xf32>
    %v32 = nano.constant 1.000000000e-01 : tensor<48xf32>
    %v33 = nano.add %v31, %v32 : tensor<48xf32>
    %v34 = nano.rsqrt %v33 : tensor<48xf32>
    %v35 = nano.broadcast %v34 dims [0] : tensor<48xf32> -> tensor<48x16xf32>
    %v36 = nano.mul %v27, %v35 : tensor<48x16xf32>
    %v37 = nano.load @p3 : tensor<32x16xf32>
    %v38 = nano.matmul %v36, %v37 {transpose_b} : (tensor<48x16xf32>, tensor<32x16xf32>) -> tensor<48x32xf32>
    %v39 = nano.mul %v38, %v38 : tensor<48x32xf32>
    %v40 = nano.reduce sum %v39 dims [1] : tensor<48x32xf32> -> tensor<48xf32>
    %v41 = nano.constant 3.125000000e-02 : tensor<48xf32>
    %v42 = nano.mul %v40, %v41 : tensor<48xf32>
    %v43 = nano.constant 1.000000000e-01 : tensor<48xf32>
    %v44 = nano.add %v42, %v43 : tensor<48xf32>
    %v45 = nano.rsqrt %v44 : tensor<48xf32>
    %v46 = nano.broadcast %v45 dims [0] : tensor<48xf32> -> tensor<48x32xf32>
    %v47 = nano.mul %v38, %v46 : tensor<48x32xf32>
    %v48 = nano.load @p4 : tensor<32x32xf32>
    %v49 = nano.matmul %v47, %v48 {transpose_b} : (tensor<48x32xf32>, tensor<32x32xf32>) -> tensor<48x32xf32>
    %v50 = nano.tanh %v49 : tensor<48x32xf32>
    %v51 = nano.constant 4.000000000e+00 : tensor<48x32xf32>
    %v52 = nano.mul %v50, %v51 : tensor<48x32xf32>
    %v53:2 = nano.cross_entropy %v52, %targets : (tensor<48x32xf32>, tensor<48xi32>) -> (tensor<48xf32>, tensor<48xf32>)
    %v54 = nano.reduce sum %v53#0 dims [0] : tensor<48xf32> -> tensor<f32>
    %v55 = nano.tanh %v22 : tensor<48x16xf32>
    %v56 = nano.reduce sum %v55 dims [0, 1] : tensor<48x16xf32> -> tensor<f32>
    %v57 = nano.constant 6.250000000e-03 : tensor<f32>
    %v58 = nano.mul %v56, %v57 : tensor<f32>
    %v59 = nano.add %v54, %v58 : tensor<f32>
    nano.return %v59 : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<24xi32>, %targets: tensor<24xi32>) -> tensor<f32> attributes {role = "validate"} {
    %v0 = nano.iota 0 : tensor<24xi32>
    %v1 = nano.load @p0 : tensor<17x16xf32>
    %v2 = nano.gather %v1, %tokens : (tensor<17x16xf32>, tensor<24xi32>) -> tensor<24x16xf32>
    %v3 = nano.sigmoid %v2 : tensor<24x16xf32>
    %v4 = nano.slice %v3 dim 1 at 0 : tensor<24x16xf32> -> tensor<24x6xf32>
    %v5 = nano.slice %v3 dim 1 at 6 : tensor<24x16xf32> -> tensor<24x10xf32>
    %v6 = nano.concat %v5, %v4 dim 1 : (tensor<24x10xf32>, tensor<24x6xf32>) -> tensor<24x16xf32>
    %v7 = nano.constant -4.000000000e-01 : tensor<24x16xf32>
    %v8 = nano.min %v6, %v7 : tensor<24x16xf32>
    %v9 = nano.load @p1 : tensor<16xf32>
    %v10 = nano.broadcast %v9 dims [1] : tensor<16xf32> -> tensor<24x16xf32>
    %v11 = nano.load @p2 : tensor<16xf32>
    %v12 = nano.broadcast %v11 dims [1] : tensor<16xf32> -> tensor<24x16xf32>
    %v13 = nano.mul %v8, %v10 : tensor<24x16xf32>
    %v14 = nano.add %v13, %v12 : tensor<24x16xf32>
    %v15 = nano.reduce sum %v14 dims [0] : tensor<24x16xf32> -> tensor<16xf32>
    %v16 = nano.constant 4.166666667e-02 : tensor<16xf32>
    %v17 = nano.mul %v15, %v16 : tensor<16xf32>
    %v18 = nano.broadcast %v17 dims [1] : tensor<16xf32> -> tensor<24x16xf32>
    %v19 = nano.sub %v14, %v18 : tensor<24x16xf32>
    %v20 = nano.slice %v19 dim 1 at 0 : tensor<24x16xf32> -> tensor<24x7xf32>
    %v21 = nano.slice %v19 dim 1 at 7 : tensor<24x16xf32> -> tensor<24x9xf32>
    %v22 = nano.concat %v21, %v20 dim 1 : (tensor<24x9xf32>, tensor<24x7xf32>) -> tensor<24x16xf32>
    %v23 = nano.reduce sum %v6 dims [0] : tensor<24x16xf32> -> tensor<16xf32>
    %v24 = nano.constant 4.166666667e-02 : tensor<16xf32>
    %v25 = nano.mul %v23, %v24 : tensor<16xf32>
    %v26 = nano.broadcast %v25 dims [1] : tensor<16xf32> -> tensor<24x16xf32>
    %v27 = nano.sub %v6, %v26 : tensor<24x16xf32>
    %v28 = nano.mul %v27, %v27 : tensor<24x16xf32>
    %v29 = nano.reduce sum %v28 dims [1] : tensor<24x16xf32> -> tensor<24xf32>
    %v30 = nano.constant 6.250000000e-02 : tensor<24xf32>
    %v31 = nano.mul %v29, %v30 : tensor<24xf32>
    %v32 = nano.constant 1.000000000e-01 : tensor<24xf32>
    %v33 = nano.add %v31, %v32 : tensor<24xf32>
    %v34 = nano.rsqrt %v33 : tensor<24xf32>
    %v35 = nano.broadcast %v34 dims [0] : tensor<24xf32> -> tensor<24x16xf32>
    %v36 = nano.mul %v27, %v35 : tensor<24x16xf32>
    %v37 = nano.load @p3 : tensor<32x16xf32>
    %v38 = nano.matmul %v36, %v37 {transpose_b} : (tensor<24x16xf32>, tensor<32x16xf32>) -> tensor<24x32xf32>
    %v39 = nano.mul %v38, %v38 : tensor<24x32xf32>
    %v40 = nano.reduce sum %v39 dims [1] : tensor<24x32xf32> -> tensor<24xf32>
    %v41 = nano.constant 3.125000000e-02 : tensor<24xf32>
    %v42 = nano.mul %v40, %v41 : tensor<24xf32>
    %v43 = nano.constant 1.000000000e-01 : tensor<24xf32>
    %v44 = nano.add %v42, %v43 : tensor<24xf32>
    %v45 = nano.rsqrt %v44 : tensor<24xf32>
    %v46 = nano.broadcast %v45 dims [0] : tensor<24xf32> -> tensor<24x32xf32>
    %v47 = nano.mul %v38, %v46 : tensor<24x32xf32>
    %v48 = nano.load @p4 : tensor<32x32xf32>
    %v49 = nano.matmul %v47, %v48 {transpose_b} : (tensor<24x32xf32>, tensor<32x32xf32>) -> tensor<24x32xf32>
    %v50 = nano.tanh %v49 : tensor<24x32xf32>
    %v51 = nano.constant 4.000000000e+00 : tensor<24x32xf32>
    %v52 = nano.mul %v50, %v51 : tensor<24x32xf32>
    %v53:2 = nano.cross_entropy %v52, %targets : (tensor<24x32xf32>, tensor<24xi32>) -> (tensor<24xf32>, tensor<24xf32>)
    %v54 = nano.reduce sum %v53#0 dims [0] : tensor<24xf32> -> tensor<f32>
    %v55 = nano.tanh %v22 : tensor<24x16xf32>
    %v56 = nano.reduce sum %v55 dims [0, 1] : tensor<24x16xf32> -> tensor<f32>
    %v57 = nano.constant 6.250000000e-03 : tensor<f32>
    %v58 = nano.mul %v56, %v57 : tensor<f32>
    %v59 = nano.add %v54, %v58 : tensor<f32>
    nano.return %v59 : tensor<f32>
  }
  nano.program @generate(%tokens: tensor<24xi32>) -> tensor<24x32xf32> attributes {role = "generate"} {
    %v0 = nano.iota 0 : tensor<24xi32>
    %v1 = nano.load @p0 : tensor<17x16xf32>
    %v2 = nano.gather %v1, %tokens : (tensor<17x16xf32>, tensor<24xi32>) -> tensor<24x16xf32>
    %v3 = nano.sigmoid %v2 : tensor<24x16xf32>
    %v4 = nano.slice %v3 dim 1 at 0 : tensor<24x16xf32> -> tensor<24x6xf32>
    %v5 = nano.slice %v3 dim 1 at 6 : tensor<24x16xf32> -> tensor<24x10xf32>
    %v6 = nano.concat %v5, %v4 dim 1 : (tensor<24x10xf32>, tensor<24x6xf32>) -> tensor<24x16xf32>
    %v7 = nano.constant -4.000000000e-01 : tensor<24x16xf32>
    %v8 = nano.min %v6, %v7 : tensor<24x16xf32>
    %v9 = nano.load @p1 : tensor<16xf32>
    %v10 = nano.broadcast %v9 dims [1] : tensor<16xf32> -> tensor<24x16xf32>
    %v11 = nano.load @p2 : tensor<16xf32>
    %v12 = nano.broadcast %v11 dims [1] : tensor<16xf32> -> tensor<24x16xf32>
    %v13 = nano.mul %v8, %v10 : tensor<24x16xf32>
    %v14 = nano.add %v13, %v12 : tensor<24x16xf32>
    %v15 = nano.reduce sum %v14 dims [0] : tensor<24x16xf32> -> tensor<16xf32>
    %v16 = nano.constant 4.166666667e-02 : tensor<16xf32>
    %v17 = nano.mul %v15, %v16 : tensor<16xf32>
    %v18 = nano.broadcast %v17 dims [1] : tensor<16xf32> -> tensor<24x16xf32>
    %v19 = nano.sub %v14, %v18 : tensor<24x16xf32>
    %v20 = nano.slice %v19 dim 1 at 0 : tensor<24x16xf32> -> tensor<24x7xf32>
    %v21 = nano.slice %v19 dim 1 at 7 : tensor<24x16xf32> -> tensor<24x9xf32>
    %v22 = nano.concat %v21, %v20 dim 1 : (tensor<24x9xf32>, tensor<24x7xf32>) -> tensor<24x16xf32>
    %v23 = nano.reduce sum %v6 dims [0] : tensor<24x16xf32> -> tensor<16xf32>
    %v24 = nano.constant 4.166666667e-02 : tensor<16xf32>
    %v25 = nano.mul %v23, %v24 : tensor<16xf32>
    %v26 = nano.broadcast %v25 dims [1] : tensor<16xf32> -> tensor<24x16xf32>
    %v27 = nano.sub %v6, %v26 : tensor<24x16xf32>
    %v28 = nano.mul %v27, %v27 : tensor<24x16xf32>
    %v29 = nano.reduce sum %v28 dims [1] : tensor<24x16xf32> -> tensor<24xf32>
    %v30 = nano.constant 6.250000000e-02 : tensor<24xf32>
    %v31 = nano.mul %v29, %v30 : tensor<24xf32>
    %v32 = nano.constant 1.000000000e-01 : tensor<24xf32>
    %v33 = nano.add %v31, %v32 : tensor<24xf32>
    %v34 = nano.rsqrt %v33 : tensor<24xf32>
    %v35 = nano.broadcast %v34 dims [0] : tensor<24xf32> -> tensor<24x16xf32>
    %v36 = nano.mul %v27, %v35 : tensor<24x16xf32>
    %v37 = nano.load @p3 : tensor<32x16xf32>
    %v38 = nano.matmul %v36, %v37 {transpose_b} : (tensor<24x16xf32>, tensor<32x16xf32>) -> tensor<24x32xf32>
    %v39 = nano.mul %v38, %v38 : tensor<24x32xf32>
    %v40 = nano.reduce sum %v39 dims [1] : tensor<24x32xf32> -> tensor<24xf32>
    %v41 = nano.constant 3.125000000e-02 : tensor<24xf32>
    %v42 = nano.mul %v40, %v41 : tensor<24xf32>
    %v43 = nano.constant 1.000000000e-01 : tensor<24xf32>
    %v44 = nano.add %v42, %v43 : tensor<24xf32>
    %v45 = nano.rsqrt %v44 : tensor<24xf32>
    %v46 = nano.broadcast %v45 dims [0] : tensor<24xf32> -> tensor<24x32xf32>
    %v47 = nano.mul %v38, %v46 : tensor<24x32xf32>
    %v48 = nano.load @p4 : tensor<32x32xf32>
    %v49 = nano.matmul %v47, %v48 {transpose_b} : (tensor<24x32xf32>, tensor<32x32xf32>) -> tensor<24x32xf32>
    %v50 = nano.tanh %v49 : tensor<24x32xf32>
    %v51 = nano.constant 4.000000000e+00 : tensor<24x32xf32>
    %v52 = nano.mul %v50, %v51 : tensor<24x32xf32>
    nano.return %v52 : tensor<24x32xf32>
  }
}
