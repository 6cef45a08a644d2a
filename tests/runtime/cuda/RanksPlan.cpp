// The plan of RanksPlan.h, and what collectives must give by their definition.
#include "tests/runtime/cuda/RanksPlan.h"

#include "runtime/NumberFormats.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/plan/PlanFile.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace nano::test {

using plan::Command;
using plan::DType;
using plan::Ranks;

plan::Plan ranksPlan(int world, int group, int64_t part) {
  plan::Plan plan;
  plan.model = "ranks";
  plan.target = "cuda";
  plan.worlds = {world};
  plan.group = group;
  auto buffer = [&](const char *name, DType type, int64_t elements) {
    plan::Buffer made = {name, plan.arenaBytes, uint64_t(elements) * plan::sizeOf(type),
                         type, {elements},      {}};
    plan.arenaBytes += (made.bytes + 255) / 256 * 256;
    plan.buffers.push_back(made);
  };
  buffer("scalars", DType::F32, 1);
  buffer("x", DType::F32, world * part);
  buffer("x2", DType::F32, 2 * world);
  buffer("sum", DType::F32, world * part);
  buffer("sum2", DType::F32, 3);
  buffer("largest", DType::F32, 5);
  buffer("mine", DType::F32, part);
  buffer("mine2", DType::F32, 2);
  buffer("of peers", DType::F32, part);
  buffer("gathered", DType::F32, group * part);
  buffer("shard", DType::F32, part);
  const int64_t halves = 4 * part - 9;
  buffer("half", DType::BF16, halves);

  plan::Program program = {"last", {}, 2, 2};
  uint32_t line = 0;
  auto ref = [&](const std::string &name, bool read, bool written) {
    for (uint32_t i = 0; i < plan.buffers.size(); ++i)
      if (plan.buffers[i].name == name)
        return plan::Ref{i, 0, written, read, plan.buffers[i].bytes};
    return plan::Ref();
  };
  auto add = [&](Command::Action action, uint32_t stream, const char *label) {
    program.commands.push_back({std::move(action), stream, label, {"ranks.cpp", ++line}});
  };
  auto moves = [&](Ranks ranks, const std::vector<std::pair<const char *, const char *>> &pairs,
                   const std::vector<int64_t> &counts) {
    plan::Exchange exchange;
    exchange.ranks = ranks;
    for (size_t i = 0; i < pairs.size(); ++i)
      exchange.moves.push_back(
          {ref(pairs[i].first, true, false), ref(pairs[i].second, false, true), counts[i]});
    return exchange;
  };
  auto copy = [&](const char *from, const char *to, int64_t count) {
    return plan::Copy{DType::F32, ref(from, true, false), ref(to, false, true), count};
  };
  auto reduce = [&](Ranks ranks, bool maximum, const char *label,
                    const std::vector<const char *> &names, const std::vector<int64_t> &counts) {
    plan::AllReduce made;
    made.ranks = ranks;
    made.maximum = maximum;
    for (size_t i = 0; i < names.size(); ++i)
      made.parts.push_back({ref(names[i], true, true), counts[i]});
    made.type = plan.buffers[made.parts[0].buffer.buffer].type;
    add(made, 1, label);
  };
  add(copy("x", "sum", world * part), 0, "sum is x");
  add(plan::RecordEvent{0}, 0, "");
  add(plan::WaitEvent{0}, 1, "");
  reduce(Ranks::All, false, "sums", {"sum", "sum2"}, {world * part, 3});
  reduce(Ranks::All, true, "maxima", {"largest"}, {5});
  add(plan::ReduceScatter{moves(Ranks::All, {{"x", "mine"}, {"x2", "mine2"}}, {part, 2})}, 1,
      "parts");
  add(copy("mine", "of peers", part), 1, "of peers is mine");
  reduce(Ranks::Peers, false, "sum of peers", {"of peers"}, {part});
  add(plan::AllGather{moves(Ranks::Group, {{"mine", "gathered"}}, {part})}, 1, "gather");
  reduce(Ranks::All, false, "sum in bf16", {"half"}, {halves});
  add(plan::RecordEvent{1}, 1, "");
  add(plan::WaitEvent{1}, 0, "");
  add(plan::Shard{moves(Ranks::Group, {{"gathered", "shard"}}, {part})}, 0, "shard");
  plan.programs = {program};
  return plan;
}

namespace {

uint32_t bufferOf(const plan::Plan &plan, const std::string &name) {
  for (uint32_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].name == name)
      return i;
  ADD_FAILURE() << "no buffer " << name;
  return 0;
}

void write(Device &device, const plan::Plan &plan, const char *name, std::vector<float> values) {
  uint32_t buffer = bufferOf(plan, name);
  Status status = ok();
  if (plan.buffers[buffer].type == DType::BF16) {
    std::vector<uint16_t> halves;
    for (float value : values)
      halves.push_back(toBf16(value));
    status = device.write(buffer, 0, halves.data(), 2 * halves.size());
  } else {
    status = device.write(buffer, 0, values.data(), 4 * values.size());
  }
  EXPECT_TRUE(status) << status.error().message;
}

std::vector<float> read(Device &device, const plan::Plan &plan, const char *name) {
  uint32_t buffer = bufferOf(plan, name);
  std::vector<float> values(size_t(plan.buffers[buffer].shape[0]));
  Status status = ok();
  if (plan.buffers[buffer].type == DType::BF16) {
    std::vector<uint16_t> halves(values.size());
    status = device.read(buffer, 0, halves.data(), 2 * halves.size());
    std::transform(halves.begin(), halves.end(), values.begin(), fromBf16);
  } else {
    status = device.read(buffer, 0, values.data(), 4 * values.size());
  }
  EXPECT_TRUE(status) << status.error().message;
  return values;
}

/// Values that tell ranks, places and runs apart, and whose sums are exact in f32 and bf16.
std::vector<float> valuesOf(int rank, int run, size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(float((rank * 7 + int(i) * 3 + run) % 16));
  return values;
}

} // namespace

void checkRanksRun(Device &device, const plan::Plan &plan, int rank, int run) {
  const int world = int(plan.worlds[0]), group = int(plan.group);
  const int64_t part = plan.buffers[bufferOf(plan, "mine")].shape[0];
  const auto halves = size_t(4 * part - 9);
  SCOPED_TRACE("rank " + std::to_string(rank) + ", run " + std::to_string(run));
  const auto all = size_t(world * part);
  write(device, plan, "x", valuesOf(rank, run, all));
  write(device, plan, "x2", valuesOf(rank, run + 1, 2 * size_t(world)));
  write(device, plan, "sum2", valuesOf(rank, run + 2, 3));
  write(device, plan, "largest", valuesOf(rank, run + 3, 5));
  write(device, plan, "half", valuesOf(rank, run + 4, halves));
  Status status = device.run("last");
  ASSERT_TRUE(status) << status.error().message;

  auto sumOf = [&](int offset, size_t count) {
    std::vector<float> sum(count, 0);
    for (int each = 0; each < world; ++each) {
      std::vector<float> values = valuesOf(each, run + offset, count);
      std::transform(sum.begin(), sum.end(), values.begin(), sum.begin(), std::plus<>());
    }
    return sum;
  };
  auto slice = [](const std::vector<float> &values, int place, int64_t count) {
    auto begin = values.begin() + place * count;
    return std::vector<float>(begin, begin + count);
  };
  std::vector<float> sum = sumOf(0, all), largest(5, 0), ofPeers(size_t(part), 0), gathered;
  for (int each = 0; each < world; ++each) {
    std::vector<float> values = valuesOf(each, run + 3, 5);
    for (size_t i = 0; i < 5; ++i)
      largest[i] = std::max(largest[i], values[i]);
    std::vector<float> theirs = slice(sum, each, part);
    if (each % group == rank % group)
      std::transform(ofPeers.begin(), ofPeers.end(), theirs.begin(), ofPeers.begin(),
                     std::plus<>());
    if (each / group == rank / group)
      gathered.insert(gathered.end(), theirs.begin(), theirs.end());
  }
  EXPECT_EQ(read(device, plan, "sum"), sum);
  EXPECT_EQ(read(device, plan, "sum2"), sumOf(2, 3));
  EXPECT_EQ(read(device, plan, "largest"), largest);
  EXPECT_EQ(read(device, plan, "mine"), slice(sum, rank, part));
  EXPECT_EQ(read(device, plan, "mine2"), slice(sumOf(1, 2 * size_t(world)), rank, 2));
  EXPECT_EQ(read(device, plan, "of peers"), ofPeers);
  EXPECT_EQ(read(device, plan, "gathered"), gathered);
  EXPECT_EQ(read(device, plan, "shard"), slice(sum, rank, part));
  EXPECT_EQ(read(device, plan, "half"), sumOf(4, halves));
}

std::vector<Status> forRanks(const plan::Plan &plan, const DeviceOptions &options,
                             const cuda::Apis &apis, const std::string &cacheFolder,
                             const RankBody &body) {
  EXPECT_TRUE(plan::validate(plan)) << plan::validate(plan).error().message;
  const int world = int(plan.worlds[0]);
  LocalGroup group(world, std::chrono::seconds(20));
  std::vector<Status> outcomes(size_t(world), ok());
  auto work = [&](int rank) {
    Communicator &communicator = group.communicator(rank);
    auto device = cuda::CudaDevice::create(plan, communicator, options, apis, cacheFolder);
    if (device) {
      body(**device, communicator);
      return;
    }
    outcomes[size_t(rank)] = device.error();
    communicator.abort(device.error().message);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back(work, rank);
  for (std::thread &thread : threads)
    thread.join();
  return outcomes;
}

} // namespace nano::test
