// The choice among cuBLASLt's algorithms: all of them in bursts, and the best of the products that
// make up most of a step once more as long as it takes to count their joules.
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/Held.h"
#include "runtime/cuda/Rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

namespace nano::cuda {

/// One of the products of a plan that are alike, with what is known of its algorithms.
struct CudaDevice::OpenProduct {
  Product *product = nullptr;
  int uses = 0;                              ///< commands of the plan
  std::vector<Products::Proposal> proposals; ///< that ran, the fastest in a burst first
  std::vector<Products::Proposal> held;      ///< to be repeated until joules are counted

  double seconds() const { return uses * proposals.front().seconds; }
};

/// Values like those of activations: what a product takes depends on its data.
void CudaDevice::fillWithNoise() {
  constexpr uint64_t patternBytes = Staging::slotBytes;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> pattern(patternBytes / 2);
  for (uint16_t &value : pattern) {
    float number = normal(random);
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    value = uint16_t(bits >> 16);
  }
  uint64_t filled = std::min(patternBytes, plan.arenaBytes);
  staging->write(arena, pattern.data(), filled);
  while (filled < plan.arenaBytes) {
    uint64_t count = std::min(filled, plan.arenaBytes - filled);
    gpu.check(gpu.api.cuMemcpyDtoDAsync(arena + filled, arena, count, streams[0]),
              "cuMemcpyDtoDAsync");
    filled += count;
  }
  gpu.synchronize(streams[0]);
}

void CudaDevice::tuneProducts() {
  std::vector<OpenProduct> open;
  std::map<std::string, size_t> places;
  std::vector<Product *> all;
  for (const plan::Program &program : plan.programs)
    for (const Prepared &each : programs.at(program.name).commands) {
      if (!each.product)
        continue;
      all.push_back(each.product.get());
      if (tuning->find(each.product->key()))
        continue;
      const auto [place, isNew] = places.try_emplace(each.product->key(), open.size());
      if (isNew)
        open.push_back({each.product.get(), 0, {}, {}});
      ++open[place->second].uses;
    }
  for (OpenProduct &each : open) {
    auto found = products->propose(*each.product, measureBursts());
    if (!found)
      throw Failure{found.error()};
    each.proposals = std::move(*found);
  }
  chooseToHold(open);
  const EnergyCounter counter = energy();
  const bool holds =
      counter.joules && std::any_of(open.begin(), open.end(),
                                    [](const OpenProduct &each) { return !each.held.empty(); });
  Held held(gpu, streams[0], counter);
  if (holds)
    powerLimit = warm(open, held, counter);
  for (OpenProduct &each : open)
    take(each, holds ? &held : nullptr);
  for (Product *each : all)
    if (Status chosen = products->choose(*each); !chosen)
      throw Failure{chosen.error()};
}

/// Those that together take nearly all of the products' time, and of each the algorithms that are
/// nearly the fastest in bursts, now with variations, and the one that is taken without tuning; of
/// the shortest products none, once holding all of these would take too long, and none where the
/// products are so short that the board is never busy.
void CudaDevice::chooseToHold(std::vector<OpenProduct> &open) {
  constexpr double share = 0.95, busy = 5e-3;
  std::vector<OpenProduct *> order;
  double total = 0;
  for (OpenProduct &each : open) {
    order.push_back(&each);
    total += each.seconds();
  }
  if (total < busy)
    return;
  std::stable_sort(order.begin(), order.end(), [](const OpenProduct *a, const OpenProduct *b) {
    return a->seconds() > b->seconds();
  });
  double covered = 0, spent = 0;
  for (OpenProduct *each : order) {
    if (covered >= share * total)
      return;
    covered += each->seconds();
    vary(*each);
    std::vector<Products::Proposal> held;
    std::map<uint64_t, int> ofShape;
    for (const Products::Proposal &proposal : each->proposals)
      if (proposal.number == 0 ||
          (held.size() < HeldTuning::most &&
           proposal.seconds <= HeldTuning::slower * each->proposals.front().seconds &&
           ++ofShape[proposal.shape] <= HeldTuning::mostOfShape))
        held.push_back(proposal);
    spent += 2 * HeldTuning::seconds * double(held.size());
    if (spent > HeldTuning::mostSeconds)
      return;
    each->held = std::move(held);
  }
}

/// Adds variations of what cuBLASLt proposes, as many as bursts have time for.
void CudaDevice::vary(OpenProduct &open) {
  constexpr double runs = 8; // of a burst
  const double burst = runs * open.proposals.front().seconds;
  const auto most = size_t(HeldTuning::varied / std::max(burst, HeldTuning::leastBurst));
  products->vary(*open.product, measureBursts(), most, open.proposals);
}

/// Repeats the products that are held in turn, as often as they are in the plan, until the board is
/// as warm as in a run; the power limit if they reach it.
double CudaDevice::warm(const std::vector<OpenProduct> &open, Held &held,
                        const EnergyCounter &counter) {
  double once = 0;
  for (const OpenProduct &each : open)
    once += each.held.empty() ? 0 : each.seconds();
  held.run(
      [&] {
        for (const OpenProduct &each : open)
          for (int i = 0; i < each.uses && !each.held.empty(); ++i)
            enqueue(*each.product);
      },
      once, HeldTuning::warmSeconds);
  const double limit = limitReached(held.watts(), counter);
  if (held.watts() > 0)
    report(fmt::format("the products draw {:.0f} W{}", held.watts(),
                       limit > 0
                           ? fmt::format(", the limit is {:.0f} W: fewest joules are chosen", limit)
                           : ", the limit is not reached: the fastest are chosen"));
  return limit;
}

/// Chooses among a product's algorithms and keeps the choice. `repeats`: null when nothing is held.
void CudaDevice::take(OpenProduct &open, Held *repeats) {
  Product &product = *open.product;
  // There and back, so that a drift of the board is nobody's gain.
  const size_t count = repeats ? open.held.size() : 0;
  std::vector<RunCost> costs(count);
  std::vector<size_t> fastest; // as `open.held` is ordered
  for (size_t i = 0; i < count; ++i)
    fastest.push_back(i);
  for (size_t turn = 0; turn < 2 * count; ++turn) {
    const size_t i = turn < count ? turn : 2 * count - 1 - turn;
    Products::give(product, open.held[i]);
    const RunCost cost =
        repeats->run([&] { enqueue(product); }, open.held[i].seconds, HeldTuning::seconds);
    const bool isCounted = cost.joules > 0 && (turn < count || costs[i].joules > 0);
    costs[i].seconds += cost.seconds / 2;
    costs[i].joules = isCounted ? costs[i].joules + cost.joules / 2 : 0;
  }
  std::vector<std::pair<int, RunCost>> held;
  for (size_t i = 0; i < count; ++i)
    held.emplace_back(open.held[i].number, costs[i]);
  const size_t best = costs.empty() ? 0 : leastCost(costs, fastest, powerLimit);
  TunedChoice choice =
      products->take(product, costs.empty() ? open.proposals.front() : open.held[best]);
  choice.candidates = int(open.proposals.size());
  choice.held = held;
  std::string others;
  if (costs.empty()) {
    for (const Products::Proposal &each : open.proposals)
      if (each.number == 0)
        choice.first.seconds = each.seconds;
  } else {
    choice.cost = costs[best];
    choice.limit = choice.cost.joules > 0 ? powerLimit : 0;
    for (const auto &[number, cost] : held) {
      if (number == 0)
        choice.first = cost;
      if (number != 0 && number != choice.chosen)
        others += fmt::format("; {}: {}", number + 1, textOf(cost));
    }
  }
  tuning->set(product.key(), choice);
  report(fmt::format("tuned {}: algorithm {} of {}{}, {} (the first: {}{})", product.key(),
                     choice.chosen + 1, choice.candidates, choice.limit > 0 ? " by joules" : "",
                     textOf(choice.cost), textOf(choice.first), others));
}

void CudaDevice::enqueue(const Product &product) {
  cublasStatus_t status = product.enqueue(workspaceOf(0), streams[0]);
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Failure{cublasLtError(*apis.cublasLt, status, "cublasLtMatmul")};
}

Products::Measure CudaDevice::measureBursts() {
  return [this](const Product &product) -> Result<double> {
    try {
      return secondsOf(product);
    } catch (const Failure &failure) {
      return failure.error;
    }
  };
}

double CudaDevice::secondsOf(const Product &product) {
  return secondsOfRun(gpu, streams[0], [&] { enqueue(product); });
}

} // namespace nano::cuda
