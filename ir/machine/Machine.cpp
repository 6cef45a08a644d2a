// Times of products, kernels and collectives from a machine's rates.
#include "ir/machine/Machine.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

namespace nano::machine {

double Curve::at(double size) const {
  if (points.empty())
    return 0;
  if (size <= points.front().first)
    return points.front().second;
  for (size_t i = 1; i < points.size(); ++i)
    if (size <= points[i].first) {
      auto [size0, rate0] = points[i - 1];
      auto [size1, rate1] = points[i];
      double part = std::log(size / size0) / std::log(size1 / size0);
      return rate0 + part * (rate1 - rate0);
    }
  return points.back().second;
}

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t Machine::tiles(int64_t m, int64_t n, ElementType type) const {
  const Products &how = products[size_t(type)];
  return ceilDiv(m, how.rows) * ceilDiv(n, how.columns);
}

/// Of products whose k is cut into so many parts at most, without their memory's time.
static double roundsOf(const Machine &machine, int64_t m, int64_t n, int64_t k, int64_t batch,
                       ElementType type, int64_t mostParts) {
  const Products &how = machine.products[size_t(type)];
  const int64_t all = machine.tiles(m, n, type) * batch;
  const double stepSeconds =
      2.0 * double(how.rows) * double(how.columns) * double(how.units) / how.flops;
  auto seconds = [&](int64_t parts) {
    return double(ceilDiv(all * parts, how.units)) * (double(k) / double(parts) + how.startup) *
           stepSeconds;
  };
  double least = seconds(1);
  if (how.split > 0)
    for (int64_t parts = 2; parts * how.split <= k && parts <= mostParts; ++parts)
      least = std::min(least, seconds(parts));
  const double flops = 2.0 * double(m) * double(n) * double(k) * double(batch);
  return std::max(least, machine.energy.seconds(flops * machine.energy.product[size_t(type)]));
}

double Machine::product(int64_t m, int64_t n, int64_t k, int64_t batch, ElementType type,
                        double bytes) const {
  constexpr int64_t mostParts = 64; // more than fill the units a few times over gain nothing
  return std::max(roundsOf(*this, m, n, k, batch, type, mostParts), kernel(bytes));
}

double Machine::wholeProduct(int64_t m, int64_t n, int64_t k, ElementType type) const {
  return roundsOf(*this, m, n, k, 1, type, 1);
}

double Machine::kernel(double bytes, double flops, Arithmetic arithmetic) const {
  auto generated = [&](ElementType type) {
    return products[size_t(type)].flops * generatedProductShare;
  };
  const double rate = arithmetic == Arithmetic::Attention   ? attentionFlops
                      : arithmetic == Arithmetic::Product   ? generated(ElementType::BF16)
                      : arithmetic == Arithmetic::ProductF8 ? generated(ElementType::F8)
                      : arithmetic == Arithmetic::Special   ? specialFlops
                                                            : vectorFlops;
  const bool isProduct = arithmetic == Arithmetic::Product || arithmetic == Arithmetic::ProductF8;
  const ElementType type =
      arithmetic == Arithmetic::ProductF8 ? ElementType::F8 : ElementType::BF16;
  const double joules = flops * (arithmetic == Arithmetic::Special  ? energy.special
                                 : arithmetic == Arithmetic::Vector ? energy.vector
                                                                    : energy.product[size_t(type)]);
  const double moving = bytes > 0 ? bytes / memory.at(bytes) : 0;
  return std::max({moving, flops > 0 ? flops / rate : 0,
                   energy.seconds(joules + (isProduct ? 0 : bytes * energy.byte))});
}

namespace {

/// Bytes that a link carries, over the tensor's.
double busFactor(Collective kind, double members) {
  return (kind == Collective::AllReduce ? 2 : 1) * (members - 1) / members;
}

/// What the measured time of a collective on `bytes` exceeds the latency by: straight lines through
/// the measured times, from none at no bytes, beyond the last at its rate; of one bandwidth, the
/// time at that.
double excess(const NodeLinks &links, Collective kind, double bytes) {
  const Curve &bus = links.bus[size_t(kind)];
  const double factor = busFactor(kind, double(links.members));
  if (bus.points.size() == 1)
    return factor * bytes / bus.points.front().second;
  double size0 = 0, excess0 = 0;
  for (auto [size, rate] : bus.points) {
    double excess1 = factor * size / rate - links.latency;
    if (bytes <= size)
      return excess0 + (bytes - size0) / (size - size0) * (excess1 - excess0);
    size0 = size;
    excess0 = excess1;
  }
  return excess0 + factor * (bytes - size0) / bus.points.back().second;
}

} // namespace

double Machine::collective(Collective kind, double bytes, int64_t members, int64_t nodes,
                           double slowdown) const {
  if (members <= 1)
    return 0;
  const double factor = busFactor(kind, double(members));
  const double perNode = double(members) / double(nodes);
  double latency = 0, moving = 0;
  if (perNode > 1) {
    latency = slowdown * node.latency;
    moving = slowdown * factor / busFactor(kind, double(node.members)) * excess(node, kind, bytes);
  }
  if (nodes > 1) {
    const double treeDepth = std::ceil(std::log2(double(nodes)));
    double messages = double(nodes - 1);
    if (kind == Collective::AllReduce)
      messages = std::min(2 * messages, 2 * treeDepth);
    else if (perNode <= 1)
      messages = treeDepth;
    latency += messages * network.latency;
    moving = std::max(moving, factor * bytes / (perNode * network.bandwidth.at(bytes)));
  }
  return latency + moving;
}

double Machine::hostCopy(double bytes) const {
  return bytes > 0 && host.bandwidth > 0 ? host.latency + bytes / host.bandwidth : 0;
}

llvm::Error Machine::checkRanks(int64_t ranks) const {
  if (ranks <= ranksPerNode || hasNetwork)
    return llvm::Error::success();
  return llvm::createStringError(
      llvm::inconvertibleErrorCode(),
      llvm::formatv("machine {0}: {1} ranks do not fit into its one node of {2}; take a machine "
                    "with a network",
                    name, ranks, ranksPerNode)
          .str());
}

} // namespace nano::machine
