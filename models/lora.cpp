// LoRA (Hu et al. 2021) on the Llama page: its parameters are frozen, and beside chosen matrices W
// two small ones are trained: y = x·Wᵀ + α/r·(x·Aᵀ)·Bᵀ. Names and initial values are peft's.
// `nanorun --init` takes the base from a HuggingFace folder, or base and adapters from a file.
#include "compiler/Frontend.h"

using namespace nano::frontend;

#define NANO_LLAMA_PARAMETERS

/// A frozen matrix and, where it is a target, its adapter.
struct Adapted {
  Tensor weight, a, b;
  double scale = 0; ///< α/r; 0: no adapter
};

/// x·Wᵀ, with what the adapter adds.
inline Tensor linear(const At &x, const Adapted &w) {
  const Tensor y = linear(x, w.weight);
  return w.scale == 0 ? y : y + w.scale * linear(linear(x, w.a), w.b);
}
inline void fp8Products(const Adapted &w, const Fp8 &how) { fp8Products(w.weight, how); }

struct Parameters {
  using Matrix = Adapted;
  const int64_t rank = hyper("lora_rank", 8, "r, the inner size of an adapter");
  const double alpha = hyper("lora_alpha", 16.0, "α: adapters are scaled by α/r");
  enum { Some, Attention, All };
  const int targets =
      hyper("lora_targets", {"qv", "attention", "all"},
            "which matrices have adapters: q and v, all of attention, the MLP's too");
  const DType baseType = hyper("base_dtype", {bf16, f32}, "stored type of what is frozen");

  Tensor parameter(const Name &name, const Shape &shape, const Init &init, const Optimizer &,
                   Line at = Line::here()) const {
    return frozen(name, shape, baseType, init, at);
  }
  Matrix matrix(const Name &name, const Name &layer, const Shape &shape, const Init &init,
                const Optimizer &group, Line at = Line::here()) const {
    Adapted made{parameter(name, shape, init, group, at), {}, {}, 0};
    if (!isTarget(layer.text))
      return made;
    const double bound = 1 / sqrt(shape.sizes[1]); // Kaiming's for a = √5
    made.scale = alpha / rank;
    made.a = param({layer.text, ".lora_A.weight"}, {rank, shape.sizes[1]}, f32,
                   uniform(-bound, bound), group, at);
    made.b =
        param({layer.text, ".lora_B.weight"}, {shape.sizes[0], rank}, f32, constant(0), group, at);
    notImported(made.a); // a folder is the base
    notImported(made.b);
    return made;
  }

private:
  /// By the letter before "_proj": q, k, v, o, and of the MLP e, p, n.
  bool isTarget(const char *layer) const {
    const char *end = layer;
    while (*end)
      ++end;
    const char letter = end[-6];
    const bool isMlp = letter == 'e' || letter == 'p' || letter == 'n';
    return targets == All || (targets == Attention && !isMlp) ||
           (targets == Some && (letter == 'q' || letter == 'v'));
  }
};

#include "models/llama.cpp"

NANO_DEFAULTS({"learning_rate", 2e-4}, {"weight_decay", 0.0});
