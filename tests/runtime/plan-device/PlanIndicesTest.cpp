// What a reader of plans asks of indices: that kernels find those that they were made for.
#include "runtime/plan/Validator.h"
#include "tests/runtime/Reaches.h"
#include "tests/runtime/plan-device/PlanRules.h"
#include "tests/runtime/plan-device/TestPlans.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <string>

namespace nano::plan {
namespace {

using test::expectRefused;
using test::Rule;

/// A table's rows by ids of the tokens and of a table: halve's first operand is of indices.
Plan indexedPlan() {
  test::PlanBuilder builder;
  Plan &plan = builder.plan;
  const uint32_t scalars = builder.buffer("scalars", DType::F32, {64});
  const uint32_t tokens = builder.buffer("tokens", DType::I32, {16});
  const uint32_t targets = builder.buffer("targets", DType::I32, {16});
  const uint32_t table = builder.buffer("table", DType::I32, {16});
  const uint32_t routes = builder.buffer("routes", DType::I32, {16});
  const uint32_t rows = builder.buffer("rows", DType::F32, {16});
  plan.indexGroups = {{0, 29}, {INT32_MIN, INT32_MAX}, {}};
  plan.buffers[tokens].indices = plan.buffers[table].indices = 0;
  plan.buffers[targets].indices = 1;
  plan.buffers[routes].indices = 2;
  plan.scalarBuffer = scalars;
  plan.scalars = {{"window", DType::I32, 4, {Expr::Kind::Constant, 5, "", {}}}};
  State ids = {"ids", State::Role::Constant, DType::I32, {2}, table, {}, {}, "", 0, {}};
  ids.init.values = {3, 29};
  plan.states = {ids};
  struct Use {
    const char *kernel;
    uint32_t buffer, group;
  };
  // The second and the third take what a scalar, or another kernel, says.
  for (const Use &use :
       {Use{"halve", tokens, 0}, Use{"add_scaled", scalars, 1}, Use{"count_runs", routes, 2}}) {
    const uint32_t kernel = builder.kernel(use.kernel, 4096);
    plan.kernels[kernel].indices = {{0, use.group}};
    builder.add<Launch>() = {kernel, {{{{use.buffer, 4}, {rows, 0, true, false}}, 4, 1}}};
  }
  builder.add<Copy>() = {DType::I32, {tokens, 0}, {table, 0, true, false}, 4};
  builder.add<Fill>() = {DType::I32, {routes, 0, true, false}, 4};
  Training &training = plan.training;
  training.phases = {{"", "", "main", ""}};
  training.seqLen = 16;
  training.globalBatch = 48;
  plan.worlds = {3};
  training.numIterations = 1;
  training.vocabSize = 30;
  training.tokensBuffer = tokens;
  training.targetsBuffer = targets;
  training.lossBuffer = rows;
  test::sayReaches(plan);
  return plan;
}

TEST(PlanIndices, IndicesAreOfTheirGroup) {
  auto operand = [](Plan &plan, size_t command) -> Ref & {
    return plan.programs[0].commands[command].as<Launch>()->segments[0].args[0];
  };
  auto copy = [](Plan &plan) -> Copy & { return *plan.programs[0].commands[3].as<Copy>(); };
  const Rule rules[] = {
      {"operand 0 of kernel 'halve' is of indices of group 0, and buffer 'targets' holds those of "
       "group 1",
       [&](Plan &p) { operand(p, 0).buffer = 2; }},
      {"operand 0 of kernel 'halve' is of indices of group 0, and buffer 'rows' holds none",
       [&](Plan &p) { operand(p, 0).buffer = 5; }},
      {"operand 0 of kernel 'halve' is of indices of group 0, and buffer 'scalars'",
       [&](Plan &p) { operand(p, 0).buffer = 0; }},
      {"operand 1 of kernel 'halve' is of no indices, and buffer 'tokens' holds those of group 0",
       [&](Plan &p) {
         p.programs[0].commands[0].as<Launch>()->segments[0].args[1] = {1, 0, true, false};
       }},
      {"the offset of an operand of indices is not a multiple of 4",
       [&](Plan &p) { operand(p, 0).offset = 2; }},
      {"operand 0 of kernel 'count_runs' is of indices of group 2",
       [&](Plan &p) { operand(p, 2).buffer = 1; }},
      {"the data puts 0 to 30 into buffer 'tokens', whose kernels take 0 to 29",
       [](Plan &p) { p.training.vocabSize = 31; }},
      {"the data puts 0 to 29 into buffer 'routes', whose kernels take nothing from outside",
       [](Plan &p) { p.training.targetsBuffer = 4; }},
      {"a column puts",
       [](Plan &p) { p.training.columns = {{"weight", Column::Type::I32, true, 1}}; }},
      {"state 'ids': it puts 3 to 30 into buffer 'table'",
       [](Plan &p) { p.states[0].init.values[1] = 30; }},
      {"state 'ids': it puts -2147483648 to 2147483647 into buffer 'table'",
       [](Plan &p) { p.states[0].init.values[1] = 1e12; }},
      {"state 'ids': it puts 3 to 858927408 into buffer 'table'",
       [](Plan &p) {
         p.states[0].init = Init();
         p.states[0].init.kind = Init::Kind::Data;
         p.data = std::string("\3\0\0\0"
                              "0123",
                              8);
       }},
      {"state 'ids': it puts -2147483648 to", [](Plan &p) { p.states[0].type = DType::F32; }},
      {"state 'ids': it puts -2147483648 to",
       [](Plan &p) { p.states[0].role = State::Role::Parameter; }},
      {"the scalar buffer: kernels take it for indices", [](Plan &p) { p.scalarBuffer = 2; }},
      {"it puts other numbers into buffer 'table'", [&](Plan &p) { copy(p).from.buffer = 2; }},
      {"it puts other numbers into buffer 'table'",
       [&](Plan &p) {
         copy(p).type = DType::F32;
         copy(p).from.buffer = 5;
       }},
      {"program 'main', command 2: it reads indices of buffer 'routes', in whose memory other "
       "numbers may lie",
       [](Plan &p) { p.buffers[4].offset = p.buffers[5].offset; }},
      {"it reads indices of buffer 'tokens', in whose memory other numbers may lie",
       [](Plan &p) { p.buffers[5].offset = p.buffers[1].offset; }},
      {"its group of indices does not exist", [](Plan &p) { p.buffers[1].indices = 3; }},
      {"its group of indices does not exist", [](Plan &p) { p.buffers[1].indices = -2; }},
      {"it holds indices and is no i32", [](Plan &p) { p.buffers[5].indices = 0; }},
      {"a group of indices reaches beyond 32 bits",
       [](Plan &p) { p.indexGroups[0].high = int64_t(1) << 31; }},
      {"kernel 'halve': a group of indices does not exist",
       [](Plan &p) { p.kernels[0].indices[0].group = 3; }},
      {"kernel 'halve': an operand of indices does not exist",
       [](Plan &p) { p.kernels[0].indices[0].operand = 2; }},
      {"kernel 'halve': its operands of indices are not in their order",
       [](Plan &p) { p.kernels[0].indices.push_back({0, 0}); }},
  };
  expectRefused(indexedPlan(), rules);
}

/// Indices in the last 256 bytes of 1024 in which `grows` is put together: a product, a kernel that
/// a candidate stands for, a copy and a gathering make the first three quarters of it, while the
/// indices are needed.
Plan growingPlan() {
  test::PlanBuilder builder;
  Plan &plan = builder.plan;
  const uint32_t grows = builder.buffer("grows", DType::F32, {256});
  const uint32_t rows = builder.buffer("rows", DType::F32, {256});
  const uint32_t ids = builder.buffer("ids", DType::I32, {64});
  plan.indexGroups = {{}};
  plan.buffers[ids].indices = 0;
  plan.buffers[ids].offset = plan.buffers[grows].offset + 768;
  State state = {"rows", State::Role::Constant, DType::F32, {256}, rows, {}, {}, "", 0, {}};
  state.init.values = {1};
  plan.states = {state};
  builder.add<Fill>() = {DType::I32, {ids, 0, true, false}, 64};
  Matmul &product = builder.add<Matmul>();
  product.a = product.b = {rows, 0};
  product.c = {grows, 0, true, false};
  product.m = 8, product.n = 5, product.k = 8, product.batch = 2;
  product.lda = 8, product.ldb = 5, product.ldc = product.ldd = 13, product.strideC = 96;
  const uint32_t halve = builder.kernel("halve", 4096), takes = builder.kernel("count_runs", 4096);
  builder.add<Launch>() = {halve, {{{{rows, 0}, {grows, 256, true, false}}, 4, 1}}};
  builder.last().candidates = {*builder.last().as<Launch>()};
  plan.kernels[halve].reaches = {{4, {16, 512}}, {8, {16, 512}}};
  builder.add<Copy>() = {DType::F32, {rows, 0}, {grows, 512, true, false}, 64};
  builder.add<AllGather>() = {
      {Ranks::All, DType::F32, {{{rows, 512}, {grows, 256, true, false}, 64}}}};
  builder.add<Launch>() = {takes, {{{{ids, 0}, {rows, 0, true, false}}, 4, 1}}};
  plan.kernels[takes].indices = {{0, 0}};
  plan.kernels[takes].reaches = {{4, {256, 16}}};
  plan.worlds = {1, 2};
  return plan;
}

// Stretches of the arena beside a group for each of its bytes.
TEST(PlanIndices, HeldIndicesAreWhatLiesInEachByte) {
  std::mt19937 random(1);
  auto below = [&](uint64_t bound) { return random() % bound; };
  for (int round = 0; round < 200; ++round) {
    constexpr uint64_t bytes = 24;
    Plan plan;
    plan.indexGroups = {{}, {}};
    std::vector<std::set<int64_t>> over(bytes);
    for (int i = 0; i < 4; ++i) {
      Buffer &buffer = plan.buffers.emplace_back();
      buffer.offset = below(bytes);
      buffer.bytes = below(bytes - buffer.offset + 1);
      buffer.indices = int64_t(below(3)) - 1;
      for (uint64_t byte = 0; byte < buffer.bytes; ++byte)
        over[buffer.offset + byte].insert(buffer.indices);
    }
    HeldIndices held(plan);
    std::vector<int64_t> plain(bytes, HeldIndices::none);
    for (uint64_t byte = 0; byte < bytes; ++byte)
      if (over[byte].size() == 1)
        plain[byte] = *over[byte].begin();
    for (int step = 0; step < 20; ++step) {
      const uint64_t begin = below(bytes), count = below(bytes - begin + 1);
      const int64_t group = int64_t(below(3)) - 1;
      EXPECT_EQ(held.holds(begin, count, group),
                std::count(plain.begin() + begin, plain.begin() + begin + count, group) ==
                    int64_t(count));
      held.put(begin, count, group);
      std::fill_n(plain.begin() + begin, count, group);
    }
  }
}

// What lies in the same memory as indices may be written as far as it does not reach them.
TEST(PlanIndices, IndicesAreKeptWhereNothingReachesThem) {
  auto at = [](Plan &plan, size_t command) -> Command & {
    return plan.programs[0].commands[command];
  };
  auto operand = [&](Plan &plan, size_t command, size_t i) -> Ref & {
    return at(plan, command).as<Launch>()->segments[0].args[i];
  };
  auto isMoved = [&](Ref &(*of)(Command &)) {
    return [of, at](size_t command) {
      return [=](Plan &plan) { of(at(plan, command)).offset += sizeof(float); };
    };
  };
  const auto made = isMoved([](Command &command) -> Ref & { return command.as<Matmul>()->c; });
  const auto copied = isMoved([](Command &command) -> Ref & { return command.as<Copy>()->to; });
  const auto gathered =
      isMoved([](Command &command) -> Ref & { return command.as<AllGather>()->moves[0].to; });
  const char *lost = "command 5: it reads indices of buffer 'ids', in whose memory other numbers "
                     "may lie";
  const Rule rules[] = {
      {lost, made(1)},
      {lost, [&](Plan &p) { at(p, 1).as<Matmul>()->m = 9; }},
      {lost, [&](Plan &p) { at(p, 1).as<Matmul>()->ldc = 14; }},
      {lost, [&](Plan &p) { at(p, 1).as<Matmul>()->strideC = 97; }},
      {lost,
       [&](Plan &p) {
         operand(p, 2, 1).offset = at(p, 2).candidates[0].segments[0].args[1].offset = 260;
       }},
      {lost, [](Plan &p) { p.kernels[0].reaches[0].bytes[1] = 516; }},
      // A candidate of more iterations, which may reach further.
      {lost,
       [&](Plan &p) {
         p.kernels[0].reaches[1].bytes[1] = 516;
         at(p, 2).candidates[0].segments[0].iterations = 8;
       }},
      {lost, copied(3)},
      {lost, [&](Plan &p) { at(p, 3).as<Copy>()->count = 65; }},
      {lost, gathered(4)},
      // Of more ranks there are more parts.
      {lost, [](Plan &p) { p.worlds = {1, 2, 3}; }},
      // What reads them, and how much of them is there.
      {lost, [&](Plan &p) { at(p, 0).as<Fill>()->count = 63; }},
      {lost,
       [&](Plan &p) {
         at(p, 0).as<Fill>()->to.offset = 4;
         at(p, 0).as<Fill>()->count = 63;
       }},
      {lost, [&](Plan &p) { at(p, 0).as<Fill>()->to.buffer = 1; }},
      {"command 0: it reads indices of buffer 'ids', in whose memory other numbers may lie",
       [&](Plan &p) { std::swap(at(p, 0), at(p, 5)); }},
  };
  expectRefused(growingPlan(), rules);

  // A launch that puts them, and one that may run in its place.
  Plan launched = growingPlan();
  launched.kernels.push_back(launched.kernels[1]);
  launched.kernels[2].name = "add_scaled";
  launched.kernels[2].reaches = {{2, {128}}, {4, {256}}};
  at(launched, 0).action = Launch{2, {{{{2, 0, true, false}}, 4, 1}}};
  at(launched, 0).candidates = {*at(launched, 0).as<Launch>()};
  const Rule less[] = {
      {lost, [&](Plan &p) { at(p, 0).candidates[0].segments[0].iterations = 2; }},
      {lost,
       [&](Plan &p) {
         at(p, 0).as<Launch>()->segments[0].iterations = 0;
         at(p, 0).candidates = {};
       }},
  };
  expectRefused(launched, less);

  // A part of them is enough for who reads no more.
  Plan half = growingPlan();
  at(half, 0).as<Fill>()->count = 32;
  half.kernels[1].reaches[0].bytes[0] = 128;
  EXPECT_TRUE(validate(half));
  // Behind the last time that they are read, their memory is for others.
  Plan later = growingPlan();
  at(later, 3).as<Copy>()->count = 128;
  std::swap(at(later, 3), at(later, 5));
  EXPECT_TRUE(validate(later));
}

} // namespace
} // namespace nano::plan
