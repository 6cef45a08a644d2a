// What a reader of plans refuses: plans that break a rule.
#include "tests/runtime/plan-device/PlanRules.h"
#include "runtime/plan/PlanFile.h"
#include "tests/runtime/plan-device/TestPlans.h"

#include <gtest/gtest.h>

namespace nano::plan {
namespace {

using test::expectRefused;
using test::fullCudaPlan;
using test::fullPlan;
using test::Rule;

Init initOf(Init::Kind kind, const std::string &source = "") {
  Init init;
  init.kind = kind;
  init.source = source;
  return init;
}

TEST(PlanRules, Candidates) {
  Plan good = fullPlan();
  Command &command = good.programs[0].commands[0];
  command.candidates = {*command.as<Launch>()};
  auto candidate = [](Plan &plan) -> Launch & {
    return plan.programs[0].commands[0].candidates[0];
  };
  const Rule rules[] = {
      {"the kernel does not exist", [&](Plan &plan) { candidate(plan).kernel = 99; }},
      {"a candidate reads or writes what the command does not",
       [&](Plan &plan) { candidate(plan).segments[0].args[0].written = true; }},
      {"it has candidates, which launches and products have",
       [&](Plan &plan) { plan.programs[0].commands[5].candidates = {candidate(plan)}; }},
  };
  expectRefused(good, rules);
}

TEST(PlanRules, EachIsChecked) {
  auto launch = [](Plan &plan) -> Launch & { return *plan.programs[0].commands[0].as<Launch>(); };
  auto product = [](Plan &plan) -> Matmul & { return *plan.programs[0].commands[2].as<Matmul>(); };
  auto reduce = [](Plan &plan) -> AllReduce & {
    return *plan.programs[0].commands[4].as<AllReduce>();
  };
  auto scaled = [](Plan &plan) -> Matmul & { return *plan.programs[0].commands[9].as<Matmul>(); };
  auto fill = [](Plan &plan) -> Fill & { return *plan.programs[0].commands[5].as<Fill>(); };
  auto copy = [](Plan &plan) -> Copy & { return *plan.programs[0].commands[6].as<Copy>(); };
  auto scatter = [](Plan &plan) -> ReduceScatter & {
    return *plan.programs[0].commands[10].as<ReduceScatter>();
  };
  auto gather = [](Plan &plan) -> AllGather & {
    return *plan.programs[0].commands[11].as<AllGather>();
  };
  auto shard = [](Plan &plan) -> Shard & { return *plan.programs[0].commands[12].as<Shard>(); };
  auto parts = [](Plan &plan) -> Sharding & { return *plan.states[1].sharding; };
  auto mapped = [](Plan &plan, size_t i) -> ForeignParameter & {
    return plan.interchange.parameters[i];
  };
  const Rule rules[] = {
      {"neither cpu nor cuda", [](Plan &p) { p.target = "tpu"; }},
      {"names no number of ranks", [](Plan &p) { p.worlds = {}; }},
      {"below 1", [](Plan &p) { p.worlds = {2, 0}; }},
      {"a number of ranks is above 1048576", [](Plan &p) { p.worlds = {int64_t(1) << 60}; }},
      {"the arena is larger than 2^46 bytes", [](Plan &p) { p.arenaBytes = UINT64_MAX; }},
      {"a group has no rank", [](Plan &p) { p.group = 0; }},
      {"do not divide a number of ranks", [](Plan &p) { p.worlds = {2, 3}; }},
      {"buffer 'x': the name is used twice", [](Plan &p) { p.buffers[0].name = "x"; }},
      {"the name is empty", [](Plan &p) { p.buffers[0].name = ""; }},
      {"buffer 'tokens': the offset is not a multiple of 256",
       [](Plan &p) { p.buffers[1].offset += 64; }},
      {"buffer 'logits': it reaches beyond the arena", [](Plan &p) { p.arenaBytes -= 1024; }},
      {"reaches beyond the arena", [](Plan &p) { p.buffers[0].bytes = UINT64_MAX - 100; }},
      {"its shape needs more bytes", [](Plan &p) { p.buffers[1].shape = {17}; }},
      {"its shape needs more bytes", [](Plan &p) { p.buffers[1].shape = {1LL << 40, 1LL << 40}; }},
      {"a dimension is negative", [](Plan &p) { p.buffers[1].shape = {-1}; }},
      {"state 'skip_weights': the name is used twice",
       [](Plan &p) { p.states[0].name = "skip_weights"; }},
      {"buffer 99 does not exist", [](Plan &p) { p.states[0].buffer = 99; }},
      {"the value needs 16384 bytes", [](Plan &p) { p.states[0].shape = {32, 256}; }},
      {"neither one number nor one for each", [](Plan &p) { p.states[3].init.values = {1, 2}; }},
      {"neither one number nor one for each", [](Plan &p) { p.states[1].init.values = {}; }},
      {"the initial value is not a finite number",
       [](Plan &p) { p.states[0].init.stddev = std::numeric_limits<double>::infinity(); }},
      {"the initial value is not a finite number",
       [](Plan &p) { p.states[3].init.values[1] = std::numeric_limits<double>::quiet_NaN(); }},
      {"is not one number and its negative",
       [](Plan &p) { p.states[3].init = initOf(Init::Kind::Sign); }},
      {"its data end behind the plan's",
       [](Plan &p) {
         p.states[3].init = initOf(Init::Kind::Data);
         p.data = std::string(11, '\0');
       }},
      {"its data end behind the plan's",
       [](Plan &p) {
         p.states[3].init = initOf(Init::Kind::Data);
         p.states[3].init.offset = UINT64_MAX;
         p.data = std::string(12, '\0');
       }},
      {"the initial value is not a finite number",
       [](Plan &p) {
         p.states[3].init = initOf(Init::Kind::Data);
         p.data = std::string(8, '\0') + std::string(4, '\xff');
       }},
      {"only f32, bf16 and i32 start as copies",
       [](Plan &p) {
         p.states[3].init = initOf(Init::Kind::Copy, "skip_weights");
         p.states[3].type = DType::F8E5M2;
       }},
      {"state 'skip_weights': it starts as a copy of itself",
       [](Plan &p) { p.states[3].init = initOf(Init::Kind::Copy, "skip_weights"); }},
      {"it starts as a copy of a state that does not exist",
       [](Plan &p) { p.states[3].init = initOf(Init::Kind::Copy, "other"); }},
      {"it starts as a copy of what is no whole parameter, state or table",
       [](Plan &p) { p.states[3].init = initOf(Init::Kind::Copy, "embed.weight.adam_m"); }},
      {"it starts as a copy of another shape",
       [](Plan &p) { p.states[3].init = initOf(Init::Kind::Copy, "embed.weight"); }},
      {"it starts as a copy of another shape",
       [](Plan &p) { p.states[3].init = initOf(Init::Kind::Transpose, "embed.weight"); }},
      {"the parts of the initial value have no sizes",
       [](Plan &p) { p.states[3].init = initOf(Init::Kind::Blocks); }},
      {"the parts of the initial value are not all of its elements",
       [](Plan &p) {
         p.states[3].init = initOf(Init::Kind::Blocks);
         p.states[3].init.counts = {UINT64_MAX, 4};
         p.states[3].init.parts.assign(2, initOf(Init::Kind::Normal));
       }},
      {"a part of the initial value is neither a number nor random",
       [](Plan &p) {
         p.states[3].init = initOf(Init::Kind::Blocks);
         p.states[3].init.counts = {3};
         p.states[3].init.parts = {initOf(Init::Kind::Copy, "embed.weight")};
       }},
      {"program 'other' does not exist", [](Plan &p) { p.training.events = {{"other", 3}}; }},
      {"an event has no program", [](Plan &p) { p.training.events = {{"", 3}}; }},
      {"an event is at a step before the first",
       [](Plan &p) { p.training.events = {{"validate", -2}}; }},
      {"its sizes are absurd", [](Plan &p) { p.buffers[1].shape = {0, INT64_MAX, INT64_MAX}; }},
      {"standard deviation is negative", [](Plan &p) { p.states[0].init.stddev = -1; }},
      {"the initial range is empty", [](Plan &p) { p.states[2].init.low = 1; }},
      {"parts of a parameter have no place in files", [](Plan &p) { p.states[0].sharding = p.states[1].sharding; }},
      {"chunks without elements", [&](Plan &p) { parts(p).chunk = 0; }},
      {"it has no parts", [&](Plan &p) { parts(p).parts = 0; }},
      {"its elements are no multiple of a chunk's", [&](Plan &p) { parts(p).chunk = 3; }},
      {"its parts are not as many as the ranks that hold them", [&](Plan &p) { parts(p).parts = 4; }},
      {"not as many as the ranks that hold them", [&](Plan &p) { parts(p).ranks = Ranks::All; }},
      {"its initial value is not one number",
       [](Plan &p) { p.states[1].init.values.assign(128, 0); }},
      {"piece 'x' of state 'embed.weight.adam_m': it begins before the end of the "
       "piece before it",
       [&](Plan &p) { parts(p).pieces[1] = {"x", {8}, 39}; }},
      {"it begins before the end", [&](Plan &p) { parts(p).pieces[0].offset = -1; }},
      {"piece 'other.adam_m' of state 'embed.weight.adam_m': it reaches beyond the whole",
       [&](Plan &p) { parts(p).pieces[1].offset = 57; }},
      {"a dimension is negative", [&](Plan &p) { parts(p).pieces[1].shape = {-1}; }},
      {"piece 'other.adam_m' of state 'embed.weight.adam_m': the name is used twice",
       [&](Plan &p) { parts(p).pieces[0].name = "other.adam_m"; }},
      {"piece '' of state 'embed.weight.adam_m': the name is empty",
       [&](Plan &p) { parts(p).pieces[0].name = ""; }},
      {"state 'skip_weights': a piece of another state has the same name",
       [&](Plan &p) { parts(p).pieces[0].name = "skip_weights"; }},
      {"interchange: the mapping names 'none', which is no parameter",
       [&](Plan &p) { mapped(p, 1).name = "none"; }},
      {"interchange: the mapping of the parameter 'embed.weight' is given twice",
       [&](Plan &p) { mapped(p, 1).name = "embed.weight"; }},
      {"'embed.weight' has 32 rows; its mapping gives it 20",
       [&](Plan &p) { mapped(p, 0).parts.pop_back(); }},
      {"'embed.weight' has 32 rows; its mapping gives it more",
       [&](Plan &p) { mapped(p, 0).parts[0].rows = 21; }},
      {"the tensor 'model.b': its row 0 is taken by nothing before the parameter 'embed.weight'",
       [&](Plan &p) { mapped(p, 0).parts[1].first = 4; }},
      {"the tensor 'model.a': its row 19 is taken twice, by the parameter 'embed.weight'",
       [&](Plan &p) { mapped(p, 0).parts[1] = {"model.a", true, 19, 12}; }},
      {"'embed.weight' cannot lie in the tensor 'model.a': 'embed.weight' takes it with other rows",
       [&](Plan &p) { mapped(p, 0).parts[1] = {"model.a", false, 20, 12}; }},
      {"cannot lie in the tensor '': its name is empty",
       [&](Plan &p) { mapped(p, 0).parts[0].tensor = ""; }},
      {"its rows are not a range",
       [&](Plan &p) { mapped(p, 0).parts[0] = {"model.a", true, 1, INT64_MAX}; }},
      {"its rows are not a range", [&](Plan &p) { mapped(p, 0).parts[0].first = -1; }},
      {"only matrices are transposed",
       [&](Plan &p) { mapped(p, 1).parts = {{"model.c", true, 0, 3}}; }},
      {"a setting of config.json has no name",
       [](Plan &p) { p.interchange.config[1].names = {}; }},
      {"a value of config.json is not JSON",
       [](Plan &p) { p.interchange.config[2].value = "silu"; }},
      {"a value of config.json is not JSON",
       [](Plan &p) { p.interchange.config[0].accepted = {"{"}; }},
      {"buffer 77 does not exist", [](Plan &p) { p.scalarBuffer = 77; }},
      {"scalar 'window': it is neither f32 nor i32",
       [](Plan &p) { p.scalars[1].type = DType::BF16; }},
      {"scalar 'window': the offset is not a multiple of 4",
       [](Plan &p) { p.scalars[1].offset = 6; }},
      {"another scalar has the same offset", [](Plan &p) { p.scalars[1].offset = 0; }},
      {"the value needs 4 bytes at offset 256", [](Plan &p) { p.scalars[1].offset = 256; }},
      {"unknown variable 'rank'",
       [](Plan &p) { p.scalars[1].value.operands[0].variable = "rank"; }},
      {"kernel 'absent': the native code does not define it",
       [](Plan &p) { p.kernels[0].name = "absent"; }},
      {"kernel 'halve': the name is used twice", [](Plan &p) { p.kernels[0].name = "halve"; }},
      {"not a complete ELF", [](Plan &p) { p.code = "code"; }},
      {"not a complete ELF", [](Plan &p) { p.code.resize(p.code.size() / 2); }},
      {"program 'next': the name is used twice", [](Plan &p) { p.programs[0].name = "next"; }},
      {"it has no stream", [](Plan &p) { p.programs[0].streams = 0; }},
      {"it has more than 64 streams", [](Plan &p) { p.programs[0].streams = 65; }},
      {"it has more events than commands", [](Plan &p) { p.programs[0].events = 1 << 20; }},
      {"program 'first', command 1: the stream does not exist",
       [](Plan &p) { p.programs[0].streams = 1; }},
      {"command 7: the event does not exist", [](Plan &p) { p.programs[0].events = 2; }},
      {"command 0 'residual': the kernel does not exist", [&](Plan &p) { launch(p).kernel = 3; }},
      {"it has no segment", [&](Plan &p) { launch(p).segments = {}; }},
      {"iterations is negative", [&](Plan &p) { launch(p).segments[0].iterations = -1; }},
      {"the grain is below 1", [&](Plan &p) { launch(p).segments[0].grain = 0; }},
      {"command 0 'residual': it has 4 operands, kernel 'add_scaled' takes 3",
       [&](Plan &p) { launch(p).segments[1].args.emplace_back(); }},
      {"it has 101 iterations, kernel 'add_scaled' at most 100",
       [&](Plan &p) { launch(p).segments[0].iterations = 101; }},
      {"it has 9223372036854775807 iterations",
       [&](Plan &p) { launch(p).segments[1].iterations = INT64_MAX; }},
      {"the reach of an operand needs 256 bytes at offset 4 of buffer 'scalars'",
       [&](Plan &p) { launch(p).segments[0].args[1].offset = 4; }},
      {"kernel 'add_scaled' does not say how far it reaches",
       [](Plan &p) { p.kernels[0].reaches.clear(); }},
      {"kernel 'halve': its reaches are not in the order of their iterations",
       [](Plan &p) { p.kernels[1].reaches[1].iterations = 8; }},
      {"its reaches are not in the order", [](Plan &p) { p.kernels[1].reaches[0].iterations = -1; }},
      {"kernel 'halve': its reaches differ in their number of operands",
       [](Plan &p) { p.kernels[1].reaches[0].bytes.pop_back(); }},
      {"program 'first', command 9: it reads buffer 'logits', which nothing fills",
       [](Plan &p) {
         for (Program &program : p.programs)
           for (Command &command : program.commands)
             if (auto *shard = command.as<Shard>())
               shard->moves[0] = shard->moves[1];
       }},
      {"command 8 waits for an event that nothing before it records",
       [](Plan &p) { p.programs[0].commands[7].as<RecordEvent>()->event = 1; }},
      {"an operand needs 400 bytes at offset 4097",
       [&](Plan &p) { launch(p).segments[0].args[0].offset = 4097; }},
      {"an operand needs 4033 bytes at offset 64",
       [&](Plan &p) { launch(p).segments[0].args[0].bytes = 4033; }},
      {"buffer 12 does not exist", [&](Plan &p) { launch(p).segments[0].args[0].buffer = 12; }},
      {"a size is not positive", [&](Plan &p) { product(p).k = 0; }},
      {"the batch has more than 2147483647 matrices",
       [&](Plan &p) { product(p).batch = int64_t(1) << 31; }},
      {"C: rows or matrices are more than 2^46 elements apart",
       [&](Plan &p) { product(p).batch = 1, product(p).strideC = INT64_MAX; }},
      {"the scale of A: scales are more than 2^46 elements apart",
       [&](Plan &p) { scaled(p).scales->stridesA[1] = INT64_MAX; }},
      {"an operand is of integers", [&](Plan &p) { product(p).aType = DType::I32; }},
      {"the result is neither f32 nor bf16", [&](Plan &p) { product(p).cType = DType::F8E5M2; }},
      {"not a finite number",
       [&](Plan &p) { product(p).alpha = std::numeric_limits<double>::infinity(); }},
      {"B: the leading dimension is smaller than a row", [&](Plan &p) { product(p).ldb = 4; }},
      {"A: the batch stride is negative", [&](Plan &p) { product(p).strideA = -1; }},
      {"C: the offset is not a multiple of the element size",
       [&](Plan &p) { product(p).c.offset = 2; }},
      {"D needs", [&](Plan &p) { product(p).strideD = 2000; }},
      {"A needs 18446744073709551615 bytes", [&](Plan &p) { product(p).strideA = INT64_MAX; }},
      {"all matrices of the batch are the same", [&](Plan &p) { product(p).strideC = 0; }},
      {"it has scales, but no f8 operands", [&](Plan &p) { scaled(p).aType = DType::BF16; }},
      {"it has scales and a batch", [&](Plan &p) { scaled(p).batch = 2, scaled(p).strideC = 1; }},
      {"for blocks of another size than 128", [&](Plan &p) { scaled(p).scales->block = 64; }},
      {"k is not a multiple of the blocks' size", [&](Plan &p) { scaled(p).k = 127; }},
      {"the scale of A: the blocks' size does not divide the operand's",
       [&](Plan &p) { scaled(p).scales->rowsA = 2; }},
      {"the scale of B: the blocks' size does not divide the operand's",
       [&](Plan &p) { scaled(p).scales->rowsB = 128; }},
      {"the scale of A: the offset is not a multiple of the element size",
       [&](Plan &p) { scaled(p).scales->a.offset = 2; }},
      {"the scale of B needs 60 bytes at offset 3044",
       [&](Plan &p) { scaled(p).scales->b.offset = 3044; }},
      {"the scale of A: a stride is negative", [&](Plan &p) { scaled(p).scales->stridesA[1] = -1; }},
      {"the scale of B needs 18446744073709551615 bytes",
       [&](Plan &p) { scaled(p).scales->stridesB[0] = INT64_MAX; }},
      {"neither f32 nor bf16", [&](Plan &p) { reduce(p).type = DType::I32; }},
      {"a number of elements is negative", [&](Plan &p) { reduce(p).parts[0].count = -1; }},
      {"an operand needs 1028 bytes", [&](Plan &p) { reduce(p).parts[0].count = 257; }},
      {"a number of elements is negative", [&](Plan &p) { fill(p).count = -1; }},
      {"an offset is not a multiple", [&](Plan &p) { fill(p).to.offset = 1; }},
      {"an operand needs", [&](Plan &p) { copy(p).count = INT64_MAX; }},
      {"source and destination overlap", [&](Plan &p) { copy(p).to = {copy(p).from.buffer, 64}; }},
      {"it has no operands", [&](Plan &p) { scatter(p).moves.clear(); }},
      {"neither f32 nor bf16", [&](Plan &p) { gather(p).type = DType::F8E5M2; }},
      {"a number of elements is negative", [&](Plan &p) { scatter(p).moves[1].count = -1; }},
      {"an offset is not a multiple", [&](Plan &p) { gather(p).moves[0].to.offset = 1; }},
      {"a source needs 1032 bytes at offset 0 of buffer 'embed.weight.grad'",
       [&](Plan &p) { scatter(p).moves[0].count = 129; }},
      {"a target needs 512 bytes at offset 3588 of buffer 'y'",
       [&](Plan &p) { gather(p).moves[0].to = {8, 3588, true, false}; }},
      {"a source needs 1600 bytes at offset 2500 of buffer 'x'",
       [&](Plan &p) { shard(p).moves[0].from.offset = 2500; }},
      {"command 12: source and destination overlap",
       [&](Plan &p) {
         shard(p).moves[0].to = {shard(p).moves[0].from.buffer, 1596, true, false};
       }},
      {"program 'gone' does not exist", [](Plan &p) { p.training.phases[1].update = "gone"; }},
      {"program 'gone' does not exist", [](Plan &p) { p.training.phases[0].next = "gone"; }},
      {"a step lacks its last micro-batch",
       [](Plan &p) { p.training.phases[0].last = ""; }},
      {"a step of several micro-batches lacks the first",
       [](Plan &p) { p.training.phases[0].first = ""; }},
      {"three micro-batches or more", [](Plan &p) { p.training.phases[1].next = ""; }},
      {"training: a size is not positive", [](Plan &p) { p.training.vocabSize = 0; }},
      {"the vocabulary has more tokens than 32 bits count",
       [](Plan &p) { p.training.vocabSize = int64_t(1) << 31; }},
      {"the token that begins a document is not one of the vocabulary",
       [](Plan &p) { p.training.eosToken = 30; }},
      {"the token that begins a document", [](Plan &p) { p.training.eosToken = -2; }},
      {"more than 2^53 tokens in a step, or steps",
       [](Plan &p) { p.training.numIterations = INT64_MAX; }},
      {"more than 2^53 tokens in a step, or steps",
       [](Plan &p) { p.training.globalBatch = int64_t(1) << 62; }},
      {"no multiple of sequence length", [](Plan &p) { p.worlds = {4}, p.training.globalBatch = 96; }},
      {"no multiple of sequence length", [](Plan &p) { p.training.globalBatch = 8; }},
      {"the tokens needs 1280 bytes",
       [](Plan &p) { p.training.seqLen = 320, p.training.globalBatch = 1280; }},
      {"the loss needs 4 bytes",
       [](Plan &p) {
         p.buffers[p.training.lossBuffer].bytes = 2, p.buffers[p.training.lossBuffer].shape = {0};
         for (Program &program : p.programs)
           if (program.name != "validate" && program.name != "generate") // they hold no collectives
             program.commands[4].as<AllReduce>()->parts[1].count =
                 program.commands[13].as<AllReduce>()->parts[0].count = 0;
       }},
      {"buffer 50 does not exist", [](Plan &p) { p.training.targetsBuffer = 50; }},
      {"the validation tokens needs", [](Plan &p) { p.training.valSeqLen = 17; }},
      {"the logits needs", [](Plan &p) { p.training.logitsColumns = 49; }},
      {"fewer columns than the vocabulary", [](Plan &p) { p.training.logitsColumns = 29; }},
      {"a program goes on where none has begun", [](Plan &p) { p.training.generate.clear(); }},
      {"the next token's logits",
       [](Plan &p) { p.training.decodeLogitsBuffer = p.training.lossBuffer; }},
      {"training: program 'd' does not exist", [](Plan &p) { p.training.decode = "d"; }},
      {"program 'first' runs on one rank alone and exchanges data with others",
       [](Plan &p) { p.training.validate = "first"; }},
      {"training: program 'm' does not exist", [](Plan &p) { p.training.measure = "m"; }},
      {"nothing that it measures", [](Plan &p) { p.training.scaledWeights.clear(); }},
      {"the measured weight 'w' is no parameter",
       [](Plan &p) { p.training.scaledWeights[1].name = "w"; }},
      {"the report", [](Plan &p) { p.training.reportBuffer = p.training.lossBuffer; }},
      {"training: the checked indices needs 8 bytes at offset 0 of buffer",
       [](Plan &p) { p.training.checks.buffer = p.training.lossBuffer; }},
      {"training: the checked indices are no i32",
       [](Plan &p) { p.training.valChecks.buffer = p.training.lossBuffer; }},
      {"a check of indices has no name", [](Plan &p) { p.training.checks.list[1].kind = ""; }},
      {"or a bound that is not positive", [](Plan &p) { p.training.genChecks.list[0].bound = 0; }},
      {"a column has no name", [](Plan &p) { p.training.columns[0].name = ""; }},
      {"one that no column can have", [](Plan &p) { p.training.valColumns[0].name = "tokens"; }},
      {"the column of documents is not u8",
       [](Plan &p) { p.training.columns[1].type = Column::Type::I32; }},
      {"a column's buffer has another type",
       [](Plan &p) { p.training.columns[0].type = Column::Type::I32; }},
      {"a column needs 64 bytes",
       [](Plan &p) { p.training.columns[0].buffer = p.training.lossBuffer; }},
      {"buffer 50 does not exist", [](Plan &p) { p.training.valColumns[0].buffer = 50; }},
      {"documents are shuffled or limited, and batches are not cut by document",
       [](Plan &p) { p.training.documents = {Documents::Rule::Aligned, "", true}; }},
      {"documents are shuffled or limited",
       [](Plan &p) { p.training.documents = {Documents::Rule::Contiguous, "lr.adam", false}; }},
      {"no token begins one", [](Plan &p) { p.training.eosToken = -1; }},
      {"the scalar for the longest document does not exist",
       [](Plan &p) { p.training.documents.longest = "lr"; }},
      {"report 'acts': the name is used twice",
       [](Plan &p) { p.training.reports[1].name = "acts"; }},
      {"report 'acts': what is no histogram has edges",
       [](Plan &p) { p.training.reports[0].edges = {1}; }},
      {"report 'spread': a histogram has no edges",
       [](Plan &p) { p.training.reports[1].edges = {}; }},
      {"report 'spread': the edges are not finite and rising",
       [](Plan &p) { p.training.reports[1].edges[2] = 0; }},
      {"report 'acts': it is of each micro-batch, and not in every phase",
       [](Plan &p) { p.training.reports[0].phases = {0}; }},
      {"report 'grad_norm/a': its phases are not rising",
       [](Plan &p) { p.training.reports[2].phases = {1, 1}; }},
      {"report 'grad_norm/a': its phases are not rising",
       [](Plan &p) { p.training.reports[2].phases = {2}; }},
      {"report 'acts': the offset is not a multiple of 4",
       [](Plan &p) { p.training.reports[0].offset = 2; }},
      {"report 'spread': the numbers needs 32 bytes",
       [](Plan &p) { p.training.reports[1].offset = p.buffers[p.training.logitsBuffer].bytes - 28; }},
      {"report 'spread': its numbers lie in another buffer than others'",
       [](Plan &p) { p.training.reports[1].buffer = p.training.lossBuffer; }},
      {"report 'grad_norm/a': the numbers are no f32",
       [](Plan &p) {
         p.training.reports[2].buffer = p.training.tokensBuffer, p.training.reports[2].offset = 0;
       }},
      {"scalar for the log does not exist", [](Plan &p) { p.training.logScalar = "lr"; }},
  };
  Plan incomplete = fullPlan();
  incomplete.scalars[1]
      .value.operands.clear(); // a file cannot say this: its reader counts operands
  EXPECT_EQ(validate(incomplete).error().message,
            "scalar 'window': an operation has the wrong number of operands");
  expectRefused(fullPlan(), rules);
}

TEST(PlanRules, EachOfStagesIsChecked) {
  EXPECT_TRUE(validate(test::stagedPlan()));
  auto later = [](Plan &plan) -> Training & { return plan.laterStages[0]; };
  const Rule rules[] = {
      {"stage 'short': it does not end after the one before it",
       [](Plan &p) { p.training.until = 0; }},
      {"stage 'long': it does not end after the one before it",
       [](Plan &p) { p.training.until = 100; }},
      {"training: the last stage does not end with the run", [&](Plan &p) { later(p).until = 99; }},
      {"stage '': the name is empty", [](Plan &p) { p.training.stage.clear(); }},
      {"stage 'long': the name is used twice", [](Plan &p) { p.training.stage = "long"; }},
      {"stage 'long': it has no training step", [&](Plan &p) { later(p).phases.clear(); }},
      {"it differs from the first one", [&](Plan &p) { later(p).phases.resize(1); }},
      {"it differs from the first one", [&](Plan &p) { later(p).numIterations = 101; }},
      {"it differs from the first one", [&](Plan &p) { later(p).vocabSize = 48; }},
      {"it differs from the first one", [&](Plan &p) { later(p).eosToken = 0; }},
      {"it differs from the first one", [&](Plan &p) { later(p).valSeqLen = 8; }},
      {"it differs from the first one", [&](Plan &p) { later(p).logScalar.clear(); }},
      {"stage 'long': the tokens needs", [&](Plan &p) { p.worlds = {2}, later(p).seqLen = 32; }},
      {"training: it is one of several stages, alone", [](Plan &p) { p.laterStages.clear(); }},
  };
  expectRefused(test::stagedPlan(), rules);
}

TEST(PlanRules, EachOfDeviceCodeIsChecked) {
  auto launch = [](Plan &plan) -> Launch & { return *plan.programs[0].commands[0].as<Launch>(); };
  const Rule forCpu[] = {
      {"the plan: it has device code", [](Plan &p) { p.sources = {{"a.cu", ""}}; }},
      {"kernel 'halve': it names device code", [](Plan &p) { p.kernels[1].source = "a.cu"; }},
      {"kernel 'halve': it has clusters or tensor maps",
       [](Plan &p) { p.kernels[1].clusterBlocks = 2; }},
      {"it has clusters or tensor maps", [](Plan &p) { p.kernels[0].tensorMaps.resize(1); }},
      {"kernel 'halve': its number of operations is not finite, or negative",
       [](Plan &p) { p.kernels[1].flops = -1; }},
      {"its number of operations is not finite",
       [](Plan &p) { p.kernels[1].flops = std::numeric_limits<double>::infinity(); }},
      {"kernel 'add_scaled': its number of operations is not finite, or negative",
       [](Plan &p) { p.kernels[0].flopsPerKey = -1; }},
      {"kernel 'add_scaled': its operations are of integers, whose rate is not known",
       [](Plan &p) { p.kernels[0].flopsType = DType::I32; }},
      {"kernel 'add_scaled.scratch': the native code does not define it",
       [](Plan &p) { p.kernels[0].name = "add_scaled.scratch"; }},
      {"kernel 'own_scratch': it has 1023 bytes of scratch memory and uses 1024",
       [](Plan &p) { p.kernels[0].name = "own_scratch", p.kernels[0].scratchBytes = 1023; }},
      {"kernel 'silent': the native code does not say how much scratch memory it uses",
       [](Plan &p) { p.kernels[0].name = "silent"; }},
      {"kernel 'add_scaled': it needs more scratch memory than 1 TiB",
       [](Plan &p) { p.kernels[0].scratchBytes = UINT64_MAX; }},
  };
  expectRefused(fullPlan(), forCpu);
  const Rule forCuda[] = {
      {"source 'halve.cu': the name is used twice",
       [](Plan &p) { p.sources[0].name = "halve.cu"; }},
      {"source '': the name is empty", [](Plan &p) { p.sources[2].name = ""; }},
      {"source '../x.h': the name is not a plain file name",
       [](Plan &p) { p.sources[2].name = "../x.h"; }},
      {"the name is not a plain file name", [](Plan &p) { p.sources[2].name = ".."; }},
      {"it has native code", [](Plan &p) { p.code = "x"; }},
      {"kernel 'halve': its source 'gone.cu' does not exist",
       [](Plan &p) { p.kernels[1].source = "gone.cu"; }},
      {"its source '' does not exist", [](Plan &p) { p.kernels[1].source.clear(); }},
      {"multiple of 32 from 32 to 1024", [](Plan &p) { p.kernels[0].threads = 0; }},
      {"multiple of 32 from 32 to 1024", [](Plan &p) { p.kernels[0].threads = 100; }},
      {"multiple of 32 from 32 to 1024", [](Plan &p) { p.kernels[0].threads = 1056; }},
      {"a block has no iteration", [](Plan &p) { p.kernels[0].iterationsPerBlock = 0; }},
      {"more shared memory than a block has",
       [](Plan &p) { p.kernels[0].sharedBytes = 227 * 1024 + 1; }},
      {"it takes no segment", [](Plan &p) { p.kernels[0].maxSegments = 0; }},
      {"it needs scratch memory", [](Plan &p) { p.kernels[0].scratchBytes = 1; }},
      {"command 0 'residual': it has more segments than the kernel",
       [](Plan &p) { p.kernels[0].maxSegments = 1; }},
      {"it has 2 operands, kernel 'add_scaled' takes 3",
       [&](Plan &p) { launch(p).segments[1].args.pop_back(); }},
      {"more blocks than a grid has",
       [&](Plan &p) {
         launch(p).segments[1].iterations = p.kernels[0].reaches[0].iterations = INT64_MAX / 2;
       }},
      {"a block has more than 2147483647 iterations",
       [](Plan &p) { p.kernels[0].iterationsPerBlock = int64_t(1) << 31; }},
      {"more than the 32764 bytes", [](Plan &p) { p.kernels[0].maxSegments = 819; }},
  };
  expectRefused(fullCudaPlan(), forCuda);
  Plan largest = fullCudaPlan();
  largest.kernels[0].maxSegments = 818; // 8 + 818 · (3 + 2) · 8 = 32,728 bytes
  EXPECT_TRUE(validate(largest));
}

TEST(PlanRules, EachOfTensorMapsIsChecked) {
  auto launch = [](Plan &plan) -> Launch & { return *plan.programs[0].commands[1].as<Launch>(); };
  auto map = [](Plan &plan) -> TensorMap & { return plan.kernels[1].tensorMaps[0]; };
  const Rule rules[] = {
      {"kernel 'halve': a cluster has not 1 to 8 blocks",
       [](Plan &p) { p.kernels[1].clusterBlocks = 0; }},
      {"not 1 to 8 blocks", [](Plan &p) { p.kernels[1].clusterBlocks = 9; }},
      {"program 'first', command 1: its number of blocks is not a multiple of a cluster's",
       [&](Plan &p) {
         launch(p).segments[0].iterations = p.kernels[1].reaches[1].iterations = 17;
       }},
      {"kernel 'halve': it has tensor maps and takes more than one segment",
       [](Plan &p) { p.kernels[1].maxSegments = 2; }},
      {"a tensor map is of an operand that does not exist", [&](Plan &p) { map(p).argument = 2; }},
      {"does not start at a multiple of 16",
       [&](Plan &p) {
         p.kernels[1].reaches[1].bytes[0] = 512;
         launch(p).segments[0].args[0].offset = 8;
       }},
      {"the matrix of a tensor map needs 4156 bytes at offset 0 of buffer 'x'",
       [&](Plan &p) { map(p).rows = 65; }},
      {"the matrix of a tensor map needs",
       [&](Plan &p) {
         p.kernels[1].reaches[1].bytes[0] = 512;
         launch(p).segments[0].args[0].offset = 512;
       }},
      {"the matrix of a tensor map needs",
       [&](Plan &p) { map(p).rows = INT32_MAX, map(p).rowBytes = (1ull << 40) - 16; }},
      {"kernel 'halve': a tensor map: the matrix has not 1 to 2147483647 rows and columns",
       [&](Plan &p) { map(p).rows = 0; }},
      {"rows and columns", [&](Plan &p) { map(p).columns = 0; }},
      {"rows and columns", [&](Plan &p) { map(p).rows = 1ull << 31; }},
      {"rows are not a multiple of 16 below 2^40 bytes apart",
       [&](Plan &p) { map(p).rowBytes = 72; }},
      {"2^40 bytes apart", [&](Plan &p) { map(p).rowBytes = 1ull << 40; }},
      {"rows overlap", [&](Plan &p) { map(p).columns = 17; }},
      {"a box has not 1 to 256 rows and columns", [&](Plan &p) { map(p).boxRows = 257; }},
      {"a box has not 1 to 256", [&](Plan &p) { map(p).boxColumns = 0; }},
      {"a box's rows are not a multiple of 16 bytes", [&](Plan &p) { map(p).boxColumns = 6; }},
      {"it is swizzled by neither 0, 32, 64 nor 128 bytes",
       [&](Plan &p) { map(p).swizzleBytes = 16; }},
      {"not as long as what it is swizzled by", [&](Plan &p) { map(p).boxColumns = 12; }},
      {"more than the 32764 bytes", [&](Plan &p) { p.kernels[1].tensorMaps.resize(256, map(p)); }},
  };
  expectRefused(fullCudaPlan(), rules);
  Plan largest = fullCudaPlan();
  largest.kernels[1].tensorMaps.resize(255, map(largest)); // 64 + 255 · 128 = 32,704 bytes
  EXPECT_TRUE(validate(largest));
  map(largest).boxColumns = 256; // reaches beyond the matrix, which is allowed
  map(largest).swizzleBytes = 0;
  EXPECT_TRUE(validate(largest));
}

/// Gradients are in no file: a part may be called as the whole that it is summed from.
TEST(PlanRules, NamesOfGradientsMayRepeat) {
  Plan plan = fullPlan();
  plan.states[1].role = State::Role::Gradient;
  plan.states[1].sharding->pieces[0].name = plan.states[2].name;
  EXPECT_TRUE(validate(plan));
}

/// What few micro-batches leave out, a plan need not have.
TEST(PlanRules, StepsOfFewMicroBatchesNeedFewPrograms) {
  Plan plan = fullPlan();
  plan.training.globalBatch = 64; // 2 micro-batches with 2 ranks, 1 with 4
  for (StepPrograms &phase : plan.training.phases)
    phase.next.clear();
  EXPECT_TRUE(validate(plan));
  plan.worlds = {4};
  for (StepPrograms &phase : plan.training.phases)
    phase.first.clear();
  EXPECT_TRUE(validate(plan));
}

} // namespace
} // namespace nano::plan
