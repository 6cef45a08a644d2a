// The training functions: weights tied, values used twice, an MLP, an attention layer, a LayerNorm
// block.
#include "tests/grad/Graphs.h"

namespace nano::test {

namespace {

/// One table is both embedding and head.
constexpr const char *tied = R"(
    %w = nano.load @w : tensor<5x4xf32>
    %again = nano.load @w : tensor<5x4xf32>
    %c = nano.cast %w : tensor<5x4xf32> -> tensor<5x4xbf16>
    %x = nano.gather %c, %tokens : (tensor<5x4xbf16>, tensor<6xi32>) -> tensor<6x4xbf16>
    %t = nano.tanh %x : tensor<6x4xbf16>
    %c2 = nano.cast %again : tensor<5x4xf32> -> tensor<5x4xbf16>
    %z = nano.matmul %t, %c2 {transpose_b} : (tensor<6x4xbf16>, tensor<5x4xbf16>) -> tensor<6x5xf32>
    %each, %lse = nano.cross_entropy %z, %targets : (tensor<6x5xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xf32>)
    %loss = nano.reduce sum %each dims [0] : tensor<6xf32> -> tensor<f32>
    nano.return %loss : tensor<f32>
)";

/// Values with several uses, parts of one value, a loss that also pulls on the softmax's
/// denominator.
constexpr const char *twice = R"(
    %a = nano.load @a : tensor<6x4xf32>
    %b = nano.load @b : tensor<3xf32>
    %s = nano.sin %a : tensor<6x4xf32>
    %p = nano.mul %s, %a : tensor<6x4xf32>
    %q = nano.add %p, %p : tensor<6x4xf32>
    %left = nano.slice %q dim 1 at 0 : tensor<6x4xf32> -> tensor<6x2xf32>
    %right = nano.slice %q dim 1 at 2 : tensor<6x4xf32> -> tensor<6x2xf32>
    %middle = nano.slice %q dim 1 at 1 : tensor<6x4xf32> -> tensor<6x2xf32>
    %lower = nano.slice %q dim 0 at 3 : tensor<6x4xf32> -> tensor<3x4xf32>
    %lr = nano.mul %left, %right : tensor<6x2xf32>
    %lm = nano.mul %lr, %middle : tensor<6x2xf32>
    %e0 = nano.slice %b dim 0 at 0 : tensor<3xf32> -> tensor<1xf32>
    %e2 = nano.slice %b dim 0 at 2 : tensor<3xf32> -> tensor<1xf32>
    %r0 = nano.broadcast %e0 dims [1] : tensor<1xf32> -> tensor<6x2xf32>
    %r2 = nano.broadcast %e2 dims [0] : tensor<1xf32> -> tensor<3x4xf32>
    %u = nano.mul %lm, %r0 : tensor<6x2xf32>
    %v = nano.mul %lower, %r2 : tensor<3x4xf32>
    %m = nano.matmul %v, %q {transpose_b} : (tensor<3x4xf32>, tensor<6x4xf32>) -> tensor<3x6xf32>
    %j = nano.concat %m, %m dim 0 : (tensor<3x6xf32>, tensor<3x6xf32>) -> tensor<6x6xf32>
    %each, %lse = nano.cross_entropy %j, %targets : (tensor<6x6xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xf32>)
    %l2 = nano.mul %lse, %lse : tensor<6xf32>
    %ls = nano.add %each, %l2 : tensor<6xf32>
    %su = nano.reduce sum %u dims [0, 1] : tensor<6x2xf32> -> tensor<f32>
    %sl = nano.reduce sum %ls dims [0] : tensor<6xf32> -> tensor<f32>
    %loss = nano.add %su, %sl : tensor<f32>
    nano.return %loss : tensor<f32>
)";

/// Residual mixes, RMS norm, relu², a capped head.
constexpr const char *mlp = R"(
    %embed = nano.load @embed : tensor<5x4xbf16>
    %x = nano.gather %embed, %tokens : (tensor<5x4xbf16>, tensor<6xi32>) -> tensor<6x4xbf16>
    %lambdas = nano.load @lambdas : tensor<2xf32>
    %l0 = nano.slice %lambdas dim 0 at 0 : tensor<2xf32> -> tensor<1xf32>
    %l1 = nano.slice %lambdas dim 0 at 1 : tensor<2xf32> -> tensor<1xf32>
    %b0 = nano.broadcast %l0 dims [0] : tensor<1xf32> -> tensor<6x4xf32>
    %b1 = nano.broadcast %l1 dims [0] : tensor<1xf32> -> tensor<6x4xf32>
    %x32 = nano.cast %x : tensor<6x4xbf16> -> tensor<6x4xf32>
    %sq = nano.mul %x32, %x32 : tensor<6x4xf32>
    %sum = nano.reduce sum %sq dims [1] : tensor<6x4xf32> -> tensor<6xf32>
    %quarter = nano.constant 0.25 : tensor<6xf32>
    %eps = nano.constant 0.01 : tensor<6xf32>
    %mean = nano.mul %sum, %quarter : tensor<6xf32>
    %safe = nano.add %mean, %eps : tensor<6xf32>
    %rs = nano.rsqrt %safe : tensor<6xf32>
    %rb = nano.broadcast %rs dims [0] : tensor<6xf32> -> tensor<6x4xf32>
    %n32 = nano.mul %x32, %rb : tensor<6x4xf32>
    %n = nano.cast %n32 : tensor<6x4xf32> -> tensor<6x4xbf16>
    %w1 = nano.load @w1 : tensor<8x4xf32>
    %w1c = nano.cast %w1 : tensor<8x4xf32> -> tensor<8x4xbf16>
    %h = nano.matmul %n, %w1c {transpose_b} : (tensor<6x4xbf16>, tensor<8x4xbf16>) -> tensor<6x8xbf16>
    %zero = nano.constant 0.0 : tensor<6x8xbf16>
    %r = nano.max %h, %zero : tensor<6x8xbf16>
    %r2 = nano.mul %r, %r : tensor<6x8xbf16>
    %w2 = nano.load @w2 : tensor<4x8xf32>
    %w2c = nano.cast %w2 : tensor<4x8xf32> -> tensor<4x8xbf16>
    %p = nano.matmul %r2, %w2c {transpose_b} : (tensor<6x8xbf16>, tensor<4x8xbf16>) -> tensor<6x4xbf16>
    %y = nano.add %x, %p : tensor<6x4xbf16>
    %y32 = nano.cast %y : tensor<6x4xbf16> -> tensor<6x4xf32>
    %m0 = nano.mul %b0, %y32 : tensor<6x4xf32>
    %m1 = nano.mul %b1, %x32 : tensor<6x4xf32>
    %mix = nano.add %m0, %m1 : tensor<6x4xf32>
    %out = nano.cast %mix : tensor<6x4xf32> -> tensor<6x4xbf16>
    %head = nano.load @head : tensor<5x4xf32>
    %headc = nano.cast %head : tensor<5x4xf32> -> tensor<5x4xbf16>
    %z = nano.matmul %out, %headc {transpose_b} : (tensor<6x4xbf16>, tensor<5x4xbf16>) -> tensor<6x5xbf16>
    %z32 = nano.cast %z : tensor<6x5xbf16> -> tensor<6x5xf32>
    %sig = nano.sigmoid %z32 : tensor<6x5xf32>
    %thirty = nano.constant 30.0 : tensor<6x5xf32>
    %logits = nano.mul %sig, %thirty : tensor<6x5xf32>
    %each, %lse = nano.cross_entropy %logits, %targets : (tensor<6x5xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xf32>)
    %loss = nano.reduce sum %each dims [0] : tensor<6xf32> -> tensor<f32>
    nano.return %loss : tensor<f32>
)";

/// q, k and v of one product, rotary embedding, a score cap, document masks from the tokens.
constexpr const char *attention = R"(
    %embed = nano.load @embed : tensor<5x8xf32>
    %x = nano.gather %embed, %tokens : (tensor<5x8xf32>, tensor<6xi32>) -> tensor<6x8xf32>
    %w = nano.load @qkv : tensor<3x8x8xf32>
    %wb = nano.cast %w : tensor<3x8x8xf32> -> tensor<3x8x8xbf16>
    %w2 = nano.reshape %wb : tensor<3x8x8xbf16> -> tensor<24x8xbf16>
    %xb = nano.cast %x : tensor<6x8xf32> -> tensor<6x8xbf16>
    %qkv = nano.matmul %xb, %w2 {transpose_b} : (tensor<6x8xbf16>, tensor<24x8xbf16>) -> tensor<6x24xbf16>
    %all = nano.reshape %qkv : tensor<6x24xbf16> -> tensor<6x6x4xbf16>
    %q0 = nano.slice %all dim 1 at 0 : tensor<6x6x4xbf16> -> tensor<6x2x4xbf16>
    %k0 = nano.slice %all dim 1 at 2 : tensor<6x6x4xbf16> -> tensor<6x2x4xbf16>
    %v = nano.slice %all dim 1 at 4 : tensor<6x6x4xbf16> -> tensor<6x2x4xbf16>
    %position = nano.iota 0 : tensor<6x4xf32>
    %cosine = nano.cos %position : tensor<6x4xf32>
    %sine = nano.sin %position : tensor<6x4xf32>
    %cb32 = nano.broadcast %cosine dims [0, 2] : tensor<6x4xf32> -> tensor<6x2x4xf32>
    %sb32 = nano.broadcast %sine dims [0, 2] : tensor<6x4xf32> -> tensor<6x2x4xf32>
    %cb = nano.cast %cb32 : tensor<6x2x4xf32> -> tensor<6x2x4xbf16>
    %sb = nano.cast %sb32 : tensor<6x2x4xf32> -> tensor<6x2x4xbf16>
    %qr = nano.rotate %q0 by 2 : tensor<6x2x4xbf16>
    %qc = nano.mul %q0, %cb : tensor<6x2x4xbf16>
    %qs = nano.mul %qr, %sb : tensor<6x2x4xbf16>
    %q = nano.add %qc, %qs : tensor<6x2x4xbf16>
    %kr = nano.rotate %k0 by 2 : tensor<6x2x4xbf16>
    %kc = nano.mul %k0, %cb : tensor<6x2x4xbf16>
    %ks = nano.mul %kr, %sb : tensor<6x2x4xbf16>
    %k = nano.add %kc, %ks : tensor<6x2x4xbf16>
    %last = nano.iota 0 : tensor<6xi32>
    %eos = nano.constant 0.0 : tensor<6xi32>
    %begin = nano.select eq, %tokens, %eos, %last, %eos : tensor<6xi32>, tensor<6xi32>
    %first = nano.scan max %begin : tensor<6xi32>
    %y, %lse = nano.attention %q, %k, %v, %first, %last scale 0.5
        : (tensor<6x2x4xbf16>, tensor<6x2x4xbf16>, tensor<6x2x4xbf16>, tensor<6xi32>, tensor<6xi32>) -> (tensor<6x2x4xbf16>, tensor<6x2xf32>) {
    ^bb0(%s: tensor<f32>, %qi: tensor<i32>, %ki: tensor<i32>, %hi: tensor<i32>):
      %half = nano.constant 0.5 : tensor<f32>
      %two = nano.constant 2.0 : tensor<f32>
      %small = nano.mul %s, %half : tensor<f32>
      %t = nano.tanh %small : tensor<f32>
      %capped = nano.mul %t, %two : tensor<f32>
      nano.yield %capped : tensor<f32>
    }
    %flat = nano.reshape %y : tensor<6x2x4xbf16> -> tensor<6x8xbf16>
    %wp = nano.load @project : tensor<8x8xf32>
    %wpb = nano.cast %wp : tensor<8x8xf32> -> tensor<8x8xbf16>
    %o = nano.matmul %flat, %wpb {transpose_b} : (tensor<6x8xbf16>, tensor<8x8xbf16>) -> tensor<6x8xbf16>
    %z = nano.add %xb, %o : tensor<6x8xbf16>
    %z32 = nano.cast %z : tensor<6x8xbf16> -> tensor<6x8xf32>
    %each, %other = nano.cross_entropy %z32, %targets : (tensor<6x8xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xf32>)
    %loss = nano.reduce sum %each dims [0] : tensor<6xf32> -> tensor<f32>
    nano.return %loss : tensor<f32>
)";

/// GPT-2's block without attention: positions, LayerNorm with scale and shift, GELU by tanh,
/// biases; all f32.
constexpr const char *layernorm = R"(
    %wte = nano.load @wte : tensor<5x4xf32>
    %wpe = nano.load @wpe : tensor<6x4xf32>
    %e = nano.gather %wte, %tokens : (tensor<5x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    %x = nano.add %e, %wpe : tensor<6x4xf32>
    %sum = nano.reduce sum %x dims [1] : tensor<6x4xf32> -> tensor<6xf32>
    %quarter = nano.constant 0.25 : tensor<6xf32>
    %mean = nano.mul %sum, %quarter : tensor<6xf32>
    %meanb = nano.broadcast %mean dims [0] : tensor<6xf32> -> tensor<6x4xf32>
    %c = nano.sub %x, %meanb : tensor<6x4xf32>
    %c2 = nano.mul %c, %c : tensor<6x4xf32>
    %ss = nano.reduce sum %c2 dims [1] : tensor<6x4xf32> -> tensor<6xf32>
    %var = nano.mul %ss, %quarter : tensor<6xf32>
    %eps = nano.constant 0.01 : tensor<6xf32>
    %safe = nano.add %var, %eps : tensor<6xf32>
    %sd = nano.sqrt %safe : tensor<6xf32>
    %sdb = nano.broadcast %sd dims [0] : tensor<6xf32> -> tensor<6x4xf32>
    %n = nano.div %c, %sdb : tensor<6x4xf32>
    %scale = nano.load @scale : tensor<4xf32>
    %shift = nano.load @shift : tensor<4xf32>
    %scaleb = nano.broadcast %scale dims [1] : tensor<4xf32> -> tensor<6x4xf32>
    %shiftb = nano.broadcast %shift dims [1] : tensor<4xf32> -> tensor<6x4xf32>
    %ns = nano.mul %n, %scaleb : tensor<6x4xf32>
    %ln = nano.add %ns, %shiftb : tensor<6x4xf32>
    %w = nano.load @w : tensor<4x8xf32>
    %b = nano.load @b : tensor<8xf32>
    %bb = nano.broadcast %b dims [1] : tensor<8xf32> -> tensor<6x8xf32>
    %m = nano.matmul %ln, %w : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    %h = nano.add %m, %bb : tensor<6x8xf32>
    %k = nano.constant 0.044715 : tensor<6x8xf32>
    %r = nano.constant 0.7978845608 : tensor<6x8xf32>
    %half = nano.constant 0.5 : tensor<6x8xf32>
    %one = nano.constant 1.0 : tensor<6x8xf32>
    %h2 = nano.mul %h, %h : tensor<6x8xf32>
    %h3 = nano.mul %h2, %h : tensor<6x8xf32>
    %kh = nano.mul %h3, %k : tensor<6x8xf32>
    %in = nano.add %h, %kh : tensor<6x8xf32>
    %rin = nano.mul %in, %r : tensor<6x8xf32>
    %th = nano.tanh %rin : tensor<6x8xf32>
    %th1 = nano.add %th, %one : tensor<6x8xf32>
    %hh = nano.mul %h, %half : tensor<6x8xf32>
    %g = nano.mul %hh, %th1 : tensor<6x8xf32>
    %w2 = nano.load @w2 : tensor<8x4xf32>
    %p = nano.matmul %g, %w2 : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %y = nano.add %x, %p : tensor<6x4xf32>
    %z = nano.matmul %y, %wte {transpose_b} : (tensor<6x4xf32>, tensor<5x4xf32>) -> tensor<6x5xf32>
    %each, %lse = nano.cross_entropy %z, %targets : (tensor<6x5xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xf32>)
    %loss = nano.reduce sum %each dims [0] : tensor<6xf32> -> tensor<f32>
    nano.return %loss : tensor<f32>
)";

/// Products from 8-bit floats: a scale from the largest magnitude, a constant one, one a row; the
/// derivative is that of the plain products, and none flows through what scales.
constexpr const char *quantized = R"(
    %embed = nano.load @embed : tensor<5x4xf32>
    %rows = nano.gather %embed, %tokens : (tensor<5x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    %x = nano.sin %rows : tensor<6x4xf32>
    %magnitude = nano.abs %x : tensor<6x4xf32>
    %amax = nano.reduce max %magnitude dims [0, 1] : tensor<6x4xf32> -> tensor<f32>
    %largest = nano.constant 448.0 : tensor<f32>
    %sx = nano.div %amax, %largest : tensor<f32>
    %sw = nano.constant 0.05 : tensor<f32>
    %qx = nano.quantize %x, %sx : tensor<6x4xf32>, tensor<f32> -> tensor<6x4xf8E4M3FN>
    %w = nano.load @w : tensor<5x4xf32>
    %wc = nano.cast %w : tensor<5x4xf32> -> tensor<5x4xbf16>
    %qw = nano.quantize %wc, %sw : tensor<5x4xbf16>, tensor<f32> -> tensor<5x4xf8E4M3FN>
    %z = nano.scaled_matmul %qx, %qw scales(%sx, %sw) {transpose_b} : (tensor<6x4xf8E4M3FN>, tensor<5x4xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<6x5xf32>
    %t = nano.tanh %z : tensor<6x5xf32>
    %rowmax = nano.constant 0.1 : tensor<6x1xf32>
    %qt = nano.quantize %t, %rowmax : tensor<6x5xf32>, tensor<6x1xf32> -> tensor<6x5xf8E5M2>
    %d = nano.dequantize %qt, %rowmax : tensor<6x5xf8E5M2>, tensor<6x1xf32> -> tensor<6x5xf32>
    %qwt = nano.transpose %qw : tensor<5x4xf8E4M3FN> -> tensor<4x5xf8E4M3FN>
    %logits = nano.scaled_matmul %qx, %qwt scales(%sx, %sw) add %d {alpha = 2.0 : f64} : (tensor<6x4xf8E4M3FN>, tensor<4x5xf8E4M3FN>, tensor<f32>, tensor<f32>, tensor<6x5xf32>) -> tensor<6x5xf32>
    %each, %lse = nano.cross_entropy %logits, %targets : (tensor<6x5xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xf32>)
    %loss = nano.reduce sum %each dims [0] : tensor<6xf32> -> tensor<f32>
    nano.return %loss : tensor<f32>
)";

constexpr Graph all[] = {
    {"tied", "w 5x4xf32", tied, false},
    {"twice", "a 6x4xf32, b 3xf32", twice},
    {"mlp", "embed 5x4xbf16, lambdas 2xf32, w1 8x4xf32, w2 4x8xf32, head 5x4xf32", mlp},
    {"attention", "embed 5x8xf32, qkv 3x8x8xf32, project 8x8xf32", attention},
    {"layernorm",
     "wte 5x4xf32, wpe 6x4xf32, scale 4xf32, shift 4xf32, w 4x8xf32, b 8xf32, w2 8x4xf32",
     layernorm},
    {"quantized", "embed 5x4xf32, w 5x4xf32", quantized},
};

} // namespace

llvm::ArrayRef<Graph> graphs() { return all; }

} // namespace nano::test
