// Costs of commands: which rate counts for which, and where a collective's ranks lie.
#include "compiler/simulate/Costs.h"
#include "runtime/plan/Overload.h"

#include <gtest/gtest.h>

using namespace nano;
using namespace nano::simulate;
using plan::Command;
using plan::DType;

namespace {

/// 10 bytes a second, 100 operations a second in f32, 200 in bf16, 400 in f8; 20 of attention.
/// Nodes of 4 ranks: 10 bytes a second inside, 5 a rank between them.
machine::Machine roundMachine() {
  machine::Machine machine;
  machine.memory.points = {{1, 10}};
  machine.vectorFlops = machine.attentionFlops = 20;
  for (size_t i = 0; i < machine::numElementTypes; ++i)
    machine.products[i] = {100.0 * double(1 << i), 1, 1, 1, 0, 0};
  machine.ranksPerNode = 4;
  machine.node.members = 4;
  for (machine::Curve &bus : machine.node.bus)
    bus.points = {{1, 10}};
  machine.hasNetwork = true;
  machine.network.bandwidth.points = {{1, 5}};
  machine.launch = 0.5;
  return machine;
}

Cost costOf(const plan::Plan &plan, int64_t world = 1, const CostOptions &options = {}) {
  return costsOf(plan, roundMachine(), world, options)[0][0];
}

CostOptions seeing(double keys) {
  CostOptions options;
  options.attendedKeys = keys;
  return options;
}

plan::Plan planOf(const Command::Action &action) {
  plan::Plan plan;
  plan.training.seqLen = 1 << 20;
  plan.programs.push_back({"last", {{action}}, 1, 1});
  return plan;
}

TEST(Costs, ProductsByTheWiderType) {
  plan::Matmul product;
  product.m = product.n = 4;
  product.k = 100; // 3200 operations
  auto seconds = [&](DType a, DType b) {
    product.aType = a;
    product.bType = b;
    product.cType = DType::F8E5M2;
    machine::Machine machine = roundMachine();
    machine.memory.points = {{1, 1e9}};
    return costsOf(planOf(product), machine, 1, {})[0][0];
  };
  EXPECT_DOUBLE_EQ(seconds(DType::F32, DType::BF16).seconds, 32);
  EXPECT_DOUBLE_EQ(seconds(DType::BF16, DType::BF16).seconds, 16);
  EXPECT_DOUBLE_EQ(seconds(DType::F8E4M3FN, DType::BF16).seconds, 16);
  EXPECT_DOUBLE_EQ(seconds(DType::F8E4M3FN, DType::F8E5M2).seconds, 8);
  EXPECT_DOUBLE_EQ(seconds(DType::F32, DType::F32).gap, 0.5);
  // Bound by memory: 400 + 400 bytes of bf16, 4·4 of f8 a product.
  product.aType = product.bType = DType::BF16;
  EXPECT_DOUBLE_EQ(costOf(planOf(product)).seconds, 2 * 2 * 400 / 10.0 + 1.6);
}

TEST(Costs, KernelsByTheirBytes) {
  plan::Launch launch;
  launch.segments.push_back({{{0, 0, false, true, 100}, {0, 0, true, true, 50}}, 1, 1});
  plan::Plan plan = planOf(launch);
  plan.buffers.resize(1);
  plan.kernels.resize(1);
  plan.kernels[0].summary = "rmsnorm, mul";
  EXPECT_DOUBLE_EQ(costOf(plan).seconds, 20);
}

TEST(Costs, PartsThatAreCopied) {
  plan::Shard shard;
  shard.type = DType::BF16;
  shard.moves = {{{}, {}, 20}, {{}, {}, 5}}; // read and written: 100 bytes
  EXPECT_DOUBLE_EQ(costOf(planOf(shard)).seconds, 10);
}

TEST(Costs, CopiesToTheHostByItsLink) {
  plan::Plan plan = planOf(plan::Copy{DType::F32, {0}, {1}, 16});
  plan.arenaBytes = 64;
  plan.buffers.resize(2);
  plan.buffers[0].bytes = plan.buffers[1].bytes = 64;
  plan.buffers[1].offset = 256;
  EXPECT_DOUBLE_EQ(costOf(plan).seconds, 12.8); // read and written: 128 bytes
  plan.hostBytes = 256;
  machine::Machine machine = roundMachine();
  machine.host = {3, 2};
  const auto cost = [&] { return costsOf(plan, machine, 1, {})[0][0]; };
  EXPECT_DOUBLE_EQ(cost().seconds, 3 + 64 / 2.0);
  EXPECT_DOUBLE_EQ(cost().memory, 6.4 / 35.5); // of all, with the gap before it
  std::swap(plan.buffers[0], plan.buffers[1]);
  EXPECT_DOUBLE_EQ(cost().seconds, 3 + 64 / 2.0);
}

TEST(Costs, WhatKeepsTheMemoryBusy) {
  auto shareOf = [&](int64_t count) {
    return costOf(planOf(plan::Copy{DType::F32, {}, {}, count})).memory;
  };
  EXPECT_DOUBLE_EQ(shareOf(0), 0);
  EXPECT_DOUBLE_EQ(shareOf(1), 0.8 / 1.3); // half a second lies before it
  EXPECT_DOUBLE_EQ(shareOf(100), 1);       // nearly all
  plan::AllReduce reduce;
  reduce.parts = {{{}, 100}};
  EXPECT_DOUBLE_EQ(costOf(planOf(reduce)).memory, 0);
  plan::Launch launch;
  launch.segments.push_back({{{0, 0, false, true, 20}}, 5, 1});
  plan::Plan plan = planOf(launch);
  plan.buffers.resize(1);
  plan.kernels.resize(1);
  plan.kernels[0].flopsPerKey = 8;
  EXPECT_DOUBLE_EQ(costOf(plan, 1, seeing(30)).memory, 2 / (0.5 + 60));
}

/// A launch of a kernel of five iterations, which reads bf16.
plan::Plan launchOfFive() {
  plan::Launch launch;
  launch.segments.push_back({{{0, 0, false, true, 20}}, 5, 1});
  plan::Plan plan = planOf(launch);
  plan.buffers.resize(1);
  plan.buffers[0].type = DType::BF16;
  plan.kernels.resize(1);
  return plan;
}

TEST(Costs, AttentionByWhatItSees) {
  plan::Plan plan = launchOfFive();
  plan.kernels[0].flopsPerKey = 8;
  EXPECT_DOUBLE_EQ(costOf(plan, 1, seeing(30)).seconds, 8 * 5 * 30 / 20.0);
  plan.training.seqLen = 19; // a query sees 10 keys on average, at most
  EXPECT_DOUBLE_EQ(costOf(plan, 1, seeing(30)).seconds, 8 * 5 * 10 / 20.0);
  plan.kernels[0].flopsPerKey = 0;
  EXPECT_DOUBLE_EQ(costOf(plan, 1, seeing(30)).seconds, 2);
}

TEST(Costs, ProductsOfGeneratedKernels) {
  plan::Plan plan = launchOfFive();
  plan.kernels[0].flops = 3200; // of one of five iterations
  EXPECT_DOUBLE_EQ(costOf(plan).seconds, 5 * 3200 / (200 * machine::generatedProductShare));
  plan.kernels[0].flopsType = DType::F8E4M3FN;
  EXPECT_DOUBLE_EQ(costOf(plan).seconds, 5 * 3200 / (400 * machine::generatedProductShare));
  plan.kernels[0].flops = 1; // the bytes take longer
  EXPECT_DOUBLE_EQ(costOf(plan).seconds, 2);
}

TEST(Costs, CollectivesByTheirRanks) {
  Command::Action action;
  auto seconds = [&](int64_t world, int64_t group, plan::Ranks ranks) {
    std::visit(Overload{[&](plan::AllReduce &reduce) { reduce.ranks = ranks; },
                        [&](plan::ReduceScatter &scatter) { scatter.ranks = ranks; },
                        [&](plan::AllGather &gather) { gather.ranks = ranks; },
                        [](const auto &) {}},
               action);
    plan::Plan plan = planOf(action);
    plan.group = group;
    return costOf(plan, world).seconds;
  };
  action.emplace<plan::AllReduce>().parts = {{{}, 15}, {{}, 5}}; // 80 bytes
  using plan::Ranks;
  EXPECT_DOUBLE_EQ(seconds(1, 1, Ranks::All), 0);
  EXPECT_DOUBLE_EQ(seconds(4, 4, Ranks::All), 2 * 0.75 * 80 / 10);
  EXPECT_DOUBLE_EQ(seconds(8, 4, Ranks::Group), 2 * 0.75 * 80 / 10);
  // Two nodes: inside 10 bytes a second, between them 4 links of 5.
  EXPECT_DOUBLE_EQ(seconds(8, 4, Ranks::All), 2 * 0.875 * 80 / 10);
  // One member a node: one link of 5.
  EXPECT_DOUBLE_EQ(seconds(8, 4, Ranks::Peers), 2 * 0.5 * 80 / 5);
  // Groups of 2: peers are 4 ranks, two in each node.
  EXPECT_DOUBLE_EQ(seconds(8, 2, Ranks::Peers), 2 * 0.75 * 80 / 10);
  // Counts of the others are of a part.
  const std::vector<plan::Move> moves = {{{}, {}, 15}, {{}, {}, 5}};
  action.emplace<plan::ReduceScatter>().moves = moves;
  EXPECT_DOUBLE_EQ(seconds(4, 4, Ranks::All), 0.75 * 320 / 10);
  action.emplace<plan::AllGather>().moves = moves;
  EXPECT_DOUBLE_EQ(seconds(8, 4, Ranks::Peers), 0.5 * 160 / 5);
}

TEST(Costs, EventsAreFree) {
  Cost cost = costOf(planOf(plan::RecordEvent{}));
  EXPECT_EQ(cost.gap + cost.seconds, 0);
}

} // namespace
