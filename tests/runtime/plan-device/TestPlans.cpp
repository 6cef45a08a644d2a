// Plans for tests.
#include "tests/runtime/plan-device/TestPlans.h"
#include "runtime/plan/Operands.h"

#include "tests/runtime/Reaches.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace nano::test {

using namespace plan;

std::string readBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string &kernelCode() {
  static const std::string code = readBytes(NANO_TEST_KERNELS);
  return code;
}

const std::string &otherKernelCode() {
  static const std::string code = readBytes(NANO_TEST_OTHER_KERNELS);
  return code;
}

PlanBuilder::PlanBuilder() {
  plan.model = "test";
  plan.target = "cpu";
  plan.worlds = {1, 2, 3, 4};
  plan.code = kernelCode();
  plan.programs.push_back({"main", {}, 1, 0});
}

uint32_t PlanBuilder::buffer(const std::string &name, DType type, std::vector<int64_t> shape) {
  Buffer buffer = {name, plan.arenaBytes, sizeOf(type), type, std::move(shape), {"test.cpp", 7}};
  for (int64_t size : buffer.shape)
    buffer.bytes *= uint64_t(size);
  plan.arenaBytes += (buffer.bytes + 255) / 256 * 256;
  plan.buffers.push_back(std::move(buffer));
  return uint32_t(plan.buffers.size() - 1);
}

uint32_t PlanBuilder::kernel(const std::string &name, uint64_t scratchBytes) {
  for (uint32_t i = 0; i < plan.kernels.size(); ++i)
    if (plan.kernels[i].name == name)
      return i;
  Kernel &kernel = plan.kernels.emplace_back();
  kernel.name = name;
  kernel.summary = "a test";
  kernel.scratchBytes = scratchBytes;
  return uint32_t(plan.kernels.size() - 1);
}

namespace {

Expr constant(double value) { return {Expr::Kind::Constant, value, "", {}}; }
Expr variable(const char *name) { return {Expr::Kind::Variable, 0, name, {}}; }
Expr apply(Expr::Kind kind, std::vector<Expr> operands) {
  return {kind, 0, "", std::move(operands)};
}

} // namespace

Plan fullPlan() {
  PlanBuilder builder;
  Plan &plan = builder.plan;
  plan.model = "gpt \"full\" – 1";
  plan.worlds = {2, 4};
  plan.group = 2;
  plan.cpuFeatures = {"sse2"};
  plan.hyperparameters = {{"model_dim", "8", false}, {"seq_len", "16", true}};
  using Check = ConfigField::Check;
  plan.interchange.prefix = "model.";
  plan.interchange.unused = {"*.mask"};
  plan.interchange.parameters = {
      {"embed.weight", {{"model.a", true, 0, 20}, {"model.b", true, 0, 12}}},
      {"skip_weights", {}},
  };
  plan.interchange.config = {
      {{"rope.theta", "theta"}, "1e4", Check::Equal, {"10000"}, "10000", "rope_theta", true},
      {{"window"}, "16", Check::AtLeast, {}, "", "", false},
      {{"act"}, "\"silu\"", Check::None, {}, "", "", true}};
  plan.source = "int main() {}\n";

  uint32_t scalars = builder.buffer("scalars", DType::F32, {64});
  uint32_t tokens = builder.buffer("tokens", DType::I32, {16});
  uint32_t targets = builder.buffer("targets", DType::I32, {16});
  uint32_t weights = builder.buffer("embed.weight", DType::BF16, {32, 8});
  uint32_t moments = builder.buffer("embed.weight.adam_m", DType::BF16, {16, 8});
  uint32_t gradients = builder.buffer("embed.weight.grad", DType::F32, {32, 8});
  uint32_t skips = builder.buffer("skip_weights", DType::F32, {3});
  uint32_t x = builder.buffer("x", DType::F32, {4, 16, 16});
  uint32_t y = builder.buffer("y", DType::F32, {4, 16, 16});
  uint32_t loss = builder.buffer("loss", DType::F32, {1});
  uint32_t valLoss = builder.buffer("val_loss", DType::F32, {1});
  uint32_t logits = builder.buffer("logits", DType::F32, {16, 48});
  plan.buffers[x].location = {"other.cpp", 0};

  plan.scalarBuffer = scalars;
  plan.scalars = {
      {"lr.adam", DType::F32, 0,
       apply(Expr::Kind::Mul,
             {constant(0.6),
              apply(Expr::Kind::Select, {apply(Expr::Kind::Less, {variable("step"), constant(100)}),
                                         constant(1), constant(-0.25)})})},
      {"window", DType::I32, 4, apply(Expr::Kind::Ceil, {variable("num_iterations")})}};

  State embed = {
      "embed.weight",  State::Role::Parameter, DType::BF16, {32, 8}, weights, {}, {}, "adam", 0.6,
      {"test.cpp", 12}};
  embed.init.kind = Init::Kind::Normal;
  embed.init.mean = 0.5;
  embed.init.stddev = 2;
  State moment = {"embed.weight.adam_m",
                  State::Role::Optimizer,
                  DType::BF16,
                  {16, 8},
                  moments,
                  {},
                  {},
                  "",
                  0,
                  {}};
  moment.init.values = {0};
  moment.sharding = {
      Ranks::Group, 2, 8, {{"embed.weight.adam_m", {5, 8}, 0}, {"other.adam_m", {200}, 48}}};
  State gradient = {"embed.weight.grad",
                    State::Role::Gradient,
                    DType::F32,
                    {32, 8},
                    gradients,
                    {},
                    {},
                    "",
                    0,
                    {}};
  gradient.init.kind = Init::Kind::Uniform;
  gradient.init.low = -0.1;
  gradient.init.high = 0.1;
  State skip = {"skip_weights", State::Role::Parameter, DType::F32, {3}, skips, {}, {}, "adam",
                0.04,           {"test.cpp", 13}};
  skip.init.values = {1, 0, -0.5};
  plan.states = {embed, moment, gradient, skip};
  State table = {"table", State::Role::Constant, DType::I32, {4}, x, {}, {}, "",
                 0,       {"test.cpp", 14}};
  table.init.kind = Init::Kind::Data;
  table.init.offset = 4;
  plan.data = "....0123456789abcdef";
  State turned = {"turned", State::Role::Optimizer, DType::F32, {8, 32}, gradients, {}, {}, "", 0,
                  {}};
  turned.init.kind = Init::Kind::Transpose;
  turned.init.source = "embed.weight";
  State same = turned;
  same.name = "same";
  same.init.kind = Init::Kind::Copy;
  same.init.source = "turned";
  State blocks = {"blocks", State::Role::Parameter, DType::BF16, {32, 8}, weights, {}, {}, "", 0,
                  {}};
  Init signs;
  signs.kind = Init::Kind::Sign;
  signs.values = {0.5};
  blocks.init.kind = Init::Kind::Blocks;
  blocks.init.counts = {100, 156};
  blocks.init.parts = {signs, embed.init};
  for (const State &state : {table, turned, same, blocks})
    plan.states.push_back(state);

  uint32_t addScaled = builder.kernel("add_scaled", 4096);
  uint32_t halve = builder.kernel("halve");
  plan.kernels[addScaled].summary = "mul, add";
  plan.kernels[addScaled].flopsPerKey = 2.5e9;
  plan.kernels[addScaled].flopsType = DType::BF16;
  plan.kernels[halve].flops = 1.5e6;
  plan.kernels[addScaled].locations = {{"test.cpp", 20}, {"other.cpp", 3}};

  plan.programs[0].name = "first";
  plan.programs[0].streams = 2;
  plan.programs[0].events = 3;
  auto &launch = builder.add<Launch>("residual");
  builder.last().location = {"test.cpp", 20};
  launch.kernel = addScaled;
  launch.segments = {{{{x, 64, false, true, 400}, {scalars, 0}, {y, 128, true, true}}, 100, 8},
                     {{{x, 1024}, {scalars, 0}, {y, 1024, true, true}}, 50, 1}};
  auto &launch2 = builder.add<Launch>();
  launch2.kernel = halve;
  builder.last().stream = 1;
  launch2.segments = {{{{x, 0}, {y, 0, true, false}}, 16, 4}};
  auto &product = builder.add<Matmul>("q·kᵀ");
  product.a = {x, 256};
  product.b = {weights, 0};
  product.c = {y, 0, true, false};
  product.d = {y, 512};
  product.aType = product.bType = DType::BF16;
  product.transposeB = true;
  product.m = 4, product.n = 8, product.k = 5, product.batch = 2;
  product.lda = 6, product.ldb = 7, product.ldc = 8, product.ldd = 9;
  product.strideA = 30, product.strideB = 1, product.strideC = 64, product.strideD = 100;
  product.alpha = 0.12, product.beta = -1.5;
  auto &plain = builder.add<Matmul>();
  plain.a = {x, 0};
  plain.b = {x, 0};
  plain.c = {y, 0, true, false};
  plain.m = plain.n = plain.k = plain.lda = plain.ldb = plain.ldc = 16;
  plain.transposeA = true;
  builder.add<AllReduce>("gradients").parts = {{{gradients, 0, true, true}, 256},
                                               {{loss, 0, true, true}, 1}};
  builder.add<Fill>() = {DType::BF16, {weights, 0, true, false}, 256};
  builder.add<Copy>() = {DType::F32, {x, 0}, {y, 0, true, false}, 32};
  builder.add<RecordEvent>().event = 2;
  builder.add<WaitEvent>().event = 2;
  builder.last().stream = 1;
  auto &scaled = builder.add<Matmul>();
  scaled.a = {x, 0};
  scaled.b = {x, 1024};
  scaled.c = {y, 0, true, false};
  scaled.aType = DType::F8E5M2, scaled.bType = DType::F8E4M3FN;
  scaled.transposeB = true;
  scaled.m = 4, scaled.n = 8, scaled.k = 128;
  scaled.lda = scaled.ldb = 128, scaled.ldc = 8;
  scaled.scales = {{logits, 0}, {logits, 64}, 128, 1, 1, {1, 4}, {2, 8}};
  auto &scatter = builder.add<ReduceScatter>("scatter");
  scatter.ranks = Ranks::Group;
  scatter.moves = {{{gradients, 0}, {y, 0, true, false}, 128},
                   {{x, 512}, {y, 1024, true, false}, 64}};
  auto &gather = builder.add<AllGather>("gather");
  gather.ranks = Ranks::Peers;
  gather.type = DType::BF16;
  gather.moves = {{{moments, 0}, {weights, 0, true, false}, 128}};
  builder.add<Shard>().moves = {{{x, 0}, {logits, 0, true, false}, 100},
                                {{x, 0}, {loss, 0, true, false}, 0}};
  auto &largest = builder.add<AllReduce>();
  largest.ranks = Ranks::Group;
  largest.maximum = true;
  largest.parts = {{{loss, 0, true, true}, 1}};
  plan.indexGroups = {{INT32_MIN, INT32_MAX}, {}};
  plan.unproven = {{"check.1", "test.cpp:7", "kernel 'fast' in place of norm, of f32 [8]", 1e-5}};
  plan.checks = "a plan";
  plan.ours = "another one";
  plan.buffers[tokens].indices = 0;
  const uint32_t runs = builder.kernel("count_runs");
  plan.kernels[runs].indices = {{0, 0}};
  builder.add<Launch>() = {runs, {{{{tokens, 0}, {y, 0, true, false}}, 16, 1}}};
  for (const char *name : {"next", "update", "validate", "generate"}) {
    plan.programs.push_back(plan.programs[0]);
    plan.programs.back().name = name;
    // A rank runs these two by itself.
    if (std::string_view(name) == "validate" || std::string_view(name) == "generate")
      std::erase_if(plan.programs.back().commands,
                    [](const Command &command) { return exchangeOf(command).has_value(); });
  }

  Training &training = plan.training;
  training.phases = {{"first", "next", "next", "update"}, {"next", "first", "generate", "next"}};
  training.events = {{"validate", 5}, {"generate", -1}};
  training.validate = "validate";
  training.seqLen = training.valSeqLen = training.genSeqLen = 16;
  training.globalBatch = 128;
  training.numIterations = 100;
  training.vocabSize = 30;
  training.eosToken = 29;
  training.tokensBuffer = training.valTokensBuffer = training.genTokensBuffer = tokens;
  training.targetsBuffer = training.valTargetsBuffer = targets;
  training.lossBuffer = loss;
  training.valLossBuffer = valLoss;
  training.trainLossIsSum = false;
  training.valLossIsSum = true;
  training.generate = "generate";
  training.logitsColumns = 48;
  training.logitsBuffer = logits;
  training.decode = "validate";
  training.decodeTokenBuffer = tokens;
  training.decodePositionBuffer = targets;
  training.decodeLogitsBuffer = logits;
  training.decodeChecks = {{{"gather", 7, {"model.cpp", 5}}}, tokens};
  training.logScalar = "lr.adam";
  training.measure = "generate";
  training.reportBuffer = logits;
  training.scaledWeights = {{"embed.weight", "static", {true, false, true}},
                            {"embed.weight", "block"}};
  training.checks = {{{"gather", 30, {"model.cpp", 3}}, {"cross_entropy", 48, {}}}, tokens};
  training.valChecks = {{{"scatter_add", 1, {}}}, targets};
  training.genChecks = {{{"gather", int64_t(1) << 31, {"model.cpp", 4}}}, tokens};
  using Column = plan::Column;
  training.columns = {{"weight", Column::Type::F32, true, x},
                      {documentColumn, Column::Type::U8, false, tokens}};
  training.valColumns = {{"label", Column::Type::I32, true, targets}};
  training.documents = {Documents::Rule::Packed, "lr.adam", true};
  training.reports = {{"acts", Report::Kind::Norm, logits, 0, {}, false, {}},
                      {"spread", Report::Kind::Histogram, logits, 4, {-1.5, 0, 1.5}, false, {}},
                      {"grad_norm/a", Report::Kind::Max, logits, 64, {}, true, {0, 1}}};
  sayReaches(plan);
  plan.kernels[halve].reaches = {{8, {512, 64}}, {16, plan.kernels[halve].reaches[0].bytes}};
  return plan;
}

std::vector<Plan> variants() {
  Plan alone = fullPlan();
  alone.worlds = {1};
  alone.group = 1;
  alone.states[1].sharding.reset();
  alone.programs.resize(1);
  alone.programs[0].commands.resize(1);
  alone.programs[0].events = 0;
  alone.training = {};
  alone.scalars.pop_back();
  return {fullPlan(), alone};
}

Plan stagedPlan() {
  Plan plan = fullPlan();
  plan.training.stage = "short";
  plan.training.until = 40;
  plan.laterStages = {plan.training};
  Training &later = plan.laterStages.front();
  later.stage = "long";
  later.until = later.numIterations;
  later.globalBatch = 64;
  return plan;
}

Plan fullCudaPlan() {
  Plan plan = fullPlan();
  plan.target = "cuda";
  plan.code.clear();
  plan.cpuFeatures.clear();
  uint32_t number = 0;
  for (Kernel &kernel : plan.kernels) {
    ++number;
    kernel.source = kernel.name + ".cu";
    kernel.scratchBytes = 0;
    kernel.threads = 128 * number;
    kernel.iterationsPerBlock = 16 * number;
    kernel.sharedBytes = 1024 * number;
    kernel.maxSegments = 4 * number;
    plan.sources.push_back(
        {kernel.source, "#include \"nano_kernels.h\"\nextern \"C\" __global__ void " + kernel.name +
                            "(const __grid_constant__ nano::Launch<3, 4> launch) {}\n"});
  }
  Kernel &halve = plan.kernels[1];
  halve.iterationsPerBlock = 8;
  halve.maxSegments = 1;
  halve.clusterBlocks = 2;
  halve.tensorMaps = {{0, DType::F32, 15, 60, 64, 8, 128, 32}, {1, DType::BF16, 8, 4, 16, 8, 4, 0}};
  plan.sources.push_back({"nano_kernels.h", "#pragma once // tab\t, quote \", \\, ·\n"});
  return plan;
}

} // namespace nano::test
