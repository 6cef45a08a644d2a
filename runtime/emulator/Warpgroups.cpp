// Products of a warpgroup: operands in swizzled shared memory, sums that appear at the wait.
#include "runtime/emulator/Cluster.h"
#include "runtime/emulator/MatrixFormats.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace nano::emulator {

void EmulatedThread::allOfWarpgroup(const char *what, const void *arguments, Site site,
                                    void (*complete)(Cluster &, Warpgroup &, EmulatedThread &,
                                                     Site)) {
  if (blockDim.x % 128 != 0)
    cluster->fail(*this, std::string(what) + " (" + Cluster::nameOf(site) + "): the block's " +
                             std::to_string(blockDim.x) + " threads are not whole warpgroups");
  Warpgroup &group = block->warpgroups[inBlock / 128];
  if (group.arrived == 0) {
    group.what = what;
    group.site = site;
  } else if (std::strcmp(group.what, what) != 0 || !isSame(group.site, site)) {
    cluster->fail(*this, std::string("divergent warpgroup: ") + what + " (" +
                             Cluster::nameOf(site) + "), another thread is in " + group.what +
                             " (" + Cluster::nameOf(group.site) + ")");
  }
  group.arguments[inBlock % 128] = arguments;
  ++cluster->progress;
  if (++group.arrived < 128) {
    cluster->wait(*this, what, site);
    return;
  }
  group.arrived = 0;
  complete(*cluster, group, *this, site);
  for (uint32_t t = 0; t < 128; t += 32) {
    Warp &each = block->warps[inBlock / 128 * 4 + t / 32];
    cluster->wakeLanes(each, &each == warp ? ~(1u << lane) : 0xffffffffu);
  }
}

void EmulatedThread::warpgroupFence(Site site) {
  allOfWarpgroup("warpgroupFence", nullptr, site,
                 [](Cluster &, Warpgroup &group, EmulatedThread &, Site) { group.fenced = true; });
}

void EmulatedThread::warpgroupCommit(Site site) {
  allOfWarpgroup("warpgroupCommit", nullptr, site,
                 [](Cluster &, Warpgroup &group, EmulatedThread &, Site) { ++group.groups; });
}

void EmulatedThread::warpgroupWait(int pending, Site site) {
  allOfWarpgroup("warpgroupWait", &pending, site,
                 [](Cluster &cluster, Warpgroup &group, EmulatedThread &last, Site) {
                   auto pending =
                       uint32_t(*static_cast<const int *>(group.arguments[last.inBlock % 128]));
                   uint32_t finished = group.groups - std::min(group.groups, pending);
                   uint32_t count = 0;
                   while (count < group.products.size() && group.products[count].group < finished)
                     ++count;
                   if (count == 0)
                     return;
                   uint32_t number = group.products[count - 1].number;
                   cluster.finishProducts(group, count);
                   uint32_t first = last.index - last.inBlock % 128;
                   for (uint32_t t = 0; t < 128; ++t) {
                     Clock &clock = cluster.threads[first + t]->clock;
                     clock.async = std::max(clock.async, number);
                   }
                 });
}

void EmulatedThread::warpgroupMultiply(const WarpgroupProduct &product, Site site) {
  allOfWarpgroup("warpgroupMultiply", &product, site,
                 [](Cluster &cluster, Warpgroup &group, EmulatedThread &last, Site site) {
                   cluster.startProduct(group, last, site);
                 });
}

std::byte *Cluster::operandChunk(EmulatedThread &thread, uint64_t descriptor, bool alongK,
                                 uint32_t row, uint32_t chunk, Site site) {
  auto start = uint32_t(descriptor & 0x3fff) << 4;
  auto leading = uint32_t(descriptor >> 16 & 0x3fff) << 4;
  auto stride = uint32_t(descriptor >> 32 & 0x3fff) << 4;
  // The manual's canonical layouts, in bytes: 8 rows of a swizzle width each, or of 16 bytes.
  uint32_t mode = uint32_t(descriptor >> 62);
  uint32_t width = mode == 1 ? 128 : mode == 2 ? 64 : mode == 3 ? 32 : 16;
  uint32_t byte = 16 * chunk, address = start + row % 8 * width + byte % width;
  if (alongK)
    address += row / 8 * stride + byte / width * leading;
  else if (mode == 0)
    address += row / 8 * leading + byte / width * stride;
  else
    address += row / 8 * stride + byte / width * leading;
  address ^= address >> 3 & (width - 16);
  const Block &block = *thread.block;
  if (address + 16 > staticBytes + launch->sharedBytes ||
      (address < staticBytes && address + 16 > staticShared.bytes))
    fail(thread, "out of bounds: warpgroupMultiply (" + nameOf(site) + ") reads byte " +
                     std::to_string(address) + " of shared memory, which has " +
                     std::to_string(staticBytes + launch->sharedBytes));
  return sharedPointer(block, address);
}

void Cluster::startProduct(Warpgroup &group, EmulatedThread &last, Site site) {
  auto argumentsOf = [&](uint32_t t) -> const WarpgroupProduct & {
    return *static_cast<const WarpgroupProduct *>(group.arguments[t]);
  };
  StartedProduct started;
  started.product = argumentsOf(0);
  const WarpgroupProduct &product = started.product;
  started.site = site;
  started.group = group.groups;
  started.number = ++asyncNumber;
  asyncEnded.push_back(false);
  if (!group.fenced)
    fail(last, "missing fence: warpgroupMultiply (" + nameOf(site) + ") with no warpgroupFence");
  auto sums = uint32_t(product.sums);
  for (uint32_t t = 0; t < 128; ++t) {
    const WarpgroupProduct &other = argumentsOf(t);
    if (other.aDescriptor != product.aDescriptor || other.bDescriptor != product.bDescriptor ||
        other.accumulate != product.accumulate)
      fail(last, "divergent warpgroup: warpgroupMultiply (" + nameOf(site) +
                     ") with different descriptors");
    started.sums[t] = other.sum;
    if (other.aFragment)
      started.fragments.push_back(
          {other.aFragment[0], other.aFragment[1], other.aFragment[2], other.aFragment[3]});
  }

  if (checked) {
    Place where = place(site);
    auto read = [&](uint64_t descriptor, bool alongK, uint32_t rows, uint32_t chunks) {
      for (uint32_t row = 0; row < rows; ++row)
        for (uint32_t chunk = 0; chunk < chunks; ++chunk)
          check(last, operandChunk(last, descriptor, alongK, row, chunk, site), 16, false,
                Use::AsyncRead, where, started.number);
    };
    // An instruction takes 32 bytes along K, which are 16 rows of bf16.
    if (started.fragments.empty())
      product.aAlongM ? read(product.aDescriptor, false, 16, 8)
                      : read(product.aDescriptor, true, 64, 2);
    product.bAlongN ? read(product.bDescriptor, false, 16, sums / 4)
                    : read(product.bDescriptor, true, 2 * sums, 2);
  }

  bool chained =
      std::any_of(group.products.begin(), group.products.end(),
                  [&](const StartedProduct &other) { return other.sums[0] == started.sums[0]; });
  for (uint32_t t = 0; t < 128; ++t) {
    if (!chained)
      started.before.insert(started.before.end(), started.sums[t], started.sums[t] + sums);
    std::fill_n(started.sums[t], sums, std::numeric_limits<float>::quiet_NaN());
  }
  group.products.push_back(std::move(started));
}

/// Ends the oldest products.
void Cluster::finishProducts(Warpgroup &group, uint32_t count) {
  EmulatedThread &thread = *current;
  for (uint32_t p = 0; p < count; ++p) {
    StartedProduct &started = group.products[p];
    const WarpgroupProduct &product = started.product;
    auto columns = uint32_t(2 * product.sums), sums = uint32_t(product.sums);
    int bytes = bytesOf(product.a);
    uint32_t k = 32 / uint32_t(bytes);
    std::vector<float> left(size_t(64) * k), right(size_t(columns) * k); // rows along K
    auto fetch = [&](uint64_t descriptor, bool alongK, Element type, uint32_t rows, float *to) {
      if (alongK) {
        for (uint32_t row = 0; row < rows; ++row)
          for (uint32_t chunk = 0; chunk < 2; ++chunk) {
            std::array<uint32_t, 4> words;
            std::memcpy(words.data(),
                        operandChunk(thread, descriptor, true, row, chunk, started.site), 16);
            for (uint32_t w = 0; w < 4; ++w)
              decodeWord(type, words[w], to + row * k + (chunk * 4 + w) * k / 8);
          }
        return;
      }
      for (uint32_t row = 0; row < k; ++row)
        for (uint32_t chunk = 0; chunk < rows / 8; ++chunk) {
          std::array<uint16_t, 8> values;
          std::memcpy(values.data(),
                      operandChunk(thread, descriptor, false, row, chunk, started.site), 16);
          for (uint32_t i = 0; i < 8; ++i)
            to[(chunk * 8 + i) * k + row] = decode(type, values[i]);
        }
    };
    if (started.fragments.empty())
      fetch(product.aDescriptor, !product.aAlongM, product.a, 64, left.data());
    else
      for (uint32_t t = 0; t < 128; ++t)
        for (uint32_t part = 0; part < 4; ++part) {
          uint32_t row = t / 32 * 16 + t % 32 / 4 + part % 2 * 8;
          decodeWord(product.a, started.fragments[t][part],
                     &left[row * k + k / 8 * (t % 4 + part / 2 * 4)]);
        }
    fetch(product.bDescriptor, !product.bAlongN, product.b, columns, right.data());

    const auto sumOf = bytes == 1          ? sumOfShortProducts
                       : launch->exactSums ? exactSumOfProducts
                                           : sumOfProducts;
    std::vector<float> result(size_t(128) * sums);
    for (uint32_t t = 0; t < 128; ++t)
      for (uint32_t i = 0; i < sums; ++i) {
        uint32_t row = t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8;
        uint32_t column = i / 4 * 8 + t % 4 * 2 + i % 2;
        result[t * sums + i] = sumOf(&left[row * k], &right[column * k], int(k),
                                     product.accumulate ? started.before[t * sums + i] : 0);
      }
    asyncEnded[started.number] = true;
    // The next product on the same sums goes on from here; they stay void until it has ended.
    auto next =
        std::find_if(group.products.begin() + p + 1, group.products.end(),
                     [&](const StartedProduct &other) { return other.sums[0] == started.sums[0]; });
    if (next != group.products.end()) {
      next->before = std::move(result);
      continue;
    }
    for (uint32_t t = 0; t < 128; ++t)
      std::copy_n(&result[t * sums], sums, started.sums[t]);
  }
  group.products.erase(group.products.begin(), group.products.begin() + count);
}

} // namespace nano::emulator
