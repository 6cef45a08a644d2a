// The NanoGPT speedrun's record 26, as MODEL_44.md states it: gpt124m whose training sequences
// begin where documents do, with all numbers that weigh streams in one parameter, padded tables, a
// longer cooldown, fewer steps, and ε of Adam beside the second moment as it is kept.
#include "models/optimizers.h"

using namespace nano::frontend;

#define NANO_SPEEDRUN_RECORD

/// `scalars` holds L skips, of which the first half is used, then λ and λ' of x and x0 of each
/// layer, then λ and λ' of v and the value embedding; and padding to a multiple of 8.
struct Record {
  struct Numbers {
    Tensor of;
    int64_t first = 0;
    Tensor operator[](int64_t i) const { return of[first + i]; }
  };
  static constexpr const char *groupName = "numbers"; // their parameter's name is `scalars`
  int64_t layers;
  Tensor scalars;
  Record(int64_t layers, const Optimizer &group) : layers(layers) {
    const int64_t count = (5 * layers + 7) / 8 * 8;
    auto initial = [=](int64_t i) {
      if (i >= 3 * layers && i < 5 * layers)
        return 0.5;
      return i >= layers && i < 3 * layers ? double((i - layers + 1) % 2) : 1.0;
    };
    scalars = param("scalars", {count}, f32, constants(count, initial), group);
  }
  Numbers skips() const { return {scalars, 0}; }
  Numbers mix(int64_t i) const { return {scalars, layers + 2 * i}; }
  Numbers valueMix(int64_t i) const { return {scalars, 3 * layers + 2 * i}; }
  static Optimizer adam(const char *name, Adam how) {
    how.epsOfKept = true;
    return nano::frontend::adam(name, how);
  }
};

#include "models/gpt124m.cpp"

NANO_DEFAULTS({"documents", "aligned"}, {"pad_tables", "yes"}, {"cooldown", 0.45},
              {"num_iterations", 1750});
