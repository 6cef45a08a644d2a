// Where the time of a model's training step goes, command by command, and what its matrix products
// take alone on the same shapes in the same run.
//
//   StepVsMatmulBench MODEL.cpp [-D name=value]... [--threads N] [--steps N] [--lines N]
#include "codegen/PlanWriter.h"
#include "codegen/cpu/CpuTarget.h"
#include "codegen/cpu/KernelLowering.h"
#include "codegen/cpu/NativeCode.h"
#include "compiler/HostCompiler.h"
#include "compiler/Registration.h"
#include "compiler/StageRunner.h"
#include "ir/step/Step.h"
#include "runtime/Device.h"
#include "runtime/Start.h"
#include "runtime/States.h"
#include "runtime/comm/LocalCommunicator.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <random>
#include <thread>

using namespace nano;
using plan::Command;

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void fail(const std::string &message) {
  fmt::print(stderr, "StepVsMatmulBench: {}\n", message);
  std::exit(1);
}

template <typename T> T take(Result<T> result) {
  if (!result)
    fail(result.error().message);
  return std::move(*result);
}

void check(const Status &status) {
  if (!status)
    fail(status.error().message);
}

/// A plan, and what each of its commands reads and writes.
struct Compiled {
  plan::Plan plan;
  std::map<const Command *, double> bytes;
};

void compile(const std::string &file, const std::vector<std::string> &overrides, Compiled &result) {
  mlir::MLIRContext context;
  mlir::DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  codegen::loadNativeDialects(context);
  const ModelFile model(file);
  frontend::TraceInput input = model.input();
  for (const std::string &text : overrides)
    input.overrides.emplace_back(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
  frontend::TracedModel traced = frontend::traceModel(context, input);
  mlir::ModuleOp module = *traced.module;
  const auto target = codegen::CpuTarget::host();
  if (!target)
    fail("this processor lacks AVX2 or FMA");
  PipelineOptions pipeline;
  pipeline.lowerKernels.lanes = target->lanes();
  const StageRun run{module, pipeline};
  for (const Stage &stage : stages())
    if (stage.addPasses)
      runStage(stage, run);

  codegen::PlanParts parts;
  auto native =
      codegen::compileKernels(module.lookupSymbol<mlir::ModuleOp>(step::kernelModuleName), *target);
  if (mlir::failed(native))
    fail("the kernels do not compile");
  parts.code = std::move(native->code);
  parts.cpuFeatures = std::move(native->cpuFeatures);
  auto written = codegen::writePlan(module, std::move(parts));
  if (mlir::failed(written))
    fail("no plan could be written");
  result.plan = std::move(*written);

  // The plan has a program's commands in the order of the module.
  const step::KernelTable kernels(module);
  for (auto program : module.getOps<step::ProgramOp>()) {
    auto found =
        std::find_if(result.plan.programs.begin(), result.plan.programs.end(),
                     [&](const plan::Program &each) { return program.getSymName() == each.name; });
    size_t index = 0;
    for (mlir::Operation &op : program.getBody().front())
      if (auto command = mlir::dyn_cast<step::StepCommandOpInterface>(op)) {
        double bytes = 0;
        for (const step::Access &access : step::accessesOf(command, kernels)) {
          auto type = mlir::cast<mlir::MemRefType>(access.buffer.getType());
          bytes += double(step::contiguousBytes(type)) * (access.reads + access.writes);
        }
        result.bytes[&found->commands[index++]] = bytes;
      }
  }
}

/// Runs training steps on one rank and keeps the shortest time of every command in a step.
class Runner {
public:
  Runner(const plan::Plan &plan, int threads) : plan(plan), group(1) {
    DeviceOptions options;
    options.threads = threads;
    options.profile = true;
    device = take(loadDevice(plan, group.communicator(0), options));
    check(initializeStates(
        plan, Seat(), {plan::State::Role::Parameter, plan::State::Role::Optimizer}, 0, threads,
        writerOf(*device), [&](const plan::State &state) { return device->clear(state.buffer); }));
    std::mt19937 random(1);
    for (uint32_t buffer : {plan.training.tokensBuffer, plan.training.targetsBuffer}) {
      std::vector<int32_t> tokens(plan.training.seqLen);
      for (int32_t &token : tokens)
        token = int32_t(random() % uint64_t(plan.training.vocabSize));
      check(device->write(buffer, 0, tokens.data(), 4 * tokens.size()));
    }
  }

  void step(int64_t number) {
    check(writeScalars(plan, number, 1, *device));
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < microBatches(); ++i)
      check(device->run(programOf(plan.training, number, i, 1)));
    if (const auto &phases = plan.training.phases;
        !phases[size_t(number) % phases.size()].update.empty())
      check(device->run(phases[size_t(number) % phases.size()].update));
    seconds = std::min(seconds, since(start));
    for (const CommandTime &time : device->times()) {
      const double before = total[time.command];
      total[time.command] = time.seconds;
      auto [shortest, isNew] = best.try_emplace(time.command, time.seconds - before);
      if (!isNew)
        shortest->second = std::min(shortest->second, time.seconds - before);
    }
  }

  int64_t microBatches() const { return plan.training.globalBatch / plan.training.seqLen; }
  /// How often a step runs the commands of a program.
  int64_t runsOf(const std::string &program) const {
    int64_t runs = program == plan.training.phases[0].update ? 1 : 0;
    for (int64_t i = 0; i < microBatches(); ++i)
      runs += program == programOf(plan.training, 0, i, 1) ? 1 : 0;
    return runs;
  }

  double seconds = 1e30;                  ///< the shortest step
  std::map<const Command *, double> best; ///< the shortest sum of a command over a step

private:
  const plan::Plan &plan;
  LocalGroup group;
  std::unique_ptr<Device> device;
  std::map<const Command *, double> total;
};

/// Bytes read and written a second by memcpy, each thread between two arrays of its own, `bytes` in
/// all.
double copyRate(size_t bytes, int threads) {
  const size_t each = bytes / threads, rounds = std::max<size_t>(4, (size_t(512) << 20) / bytes);
  std::vector<double> rates(threads);
  auto work = [&](int thread) {
    std::vector<char> from(each, 1), to(each, 2);
    double best = 1e30;
    for (size_t round = 0; round < rounds; ++round) {
      const Clock::time_point start = Clock::now();
      std::memcpy(to.data(), from.data(), each);
      best = std::min(best, since(start));
      std::swap(to, from);
    }
    rates[thread] = 2.0 * double(each) / best;
  };
  std::vector<std::thread> team;
  for (int thread = 0; thread < threads; ++thread)
    team.emplace_back(work, thread);
  for (std::thread &thread : team)
    thread.join();
  double sum = 0;
  for (double rate : rates)
    sum += rate;
  return sum;
}

struct Row {
  std::string what;
  int64_t runs = 0;
  double seconds = 0, bytes = 0;
};

} // namespace

int main(int argc, char **argv) {
  CLI::App app("The time of a training step by command, and its matrix products alone");
  std::string model;
  std::vector<std::string> overrides;
  int threads = 1, steps = 6;
  size_t lines = 30;
  app.add_option("model", model, "The model file")->required();
  app.add_option("-D", overrides, "name=value")->take_all()->allow_extra_args(false);
  app.add_option("--threads", threads, "CPU threads")->capture_default_str();
  app.add_option("--steps", steps, "Steps to run; the shortest times count")->capture_default_str();
  app.add_option("--lines", lines, "Kernels to print")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  Compiled compiled;
  try {
    compile(model, overrides, compiled);
  } catch (const std::exception &error) {
    fail(error.what());
  }
  const plan::Plan &whole = compiled.plan;
  // The same products at the same places, and nothing else.
  plan::Plan products = whole;
  for (plan::Program &program : products.programs)
    std::erase_if(program.commands, [](const Command &each) { return !each.is<plan::Matmul>(); });

  Runner stepRunner(whole, threads), productRunner(products, threads);
  for (int step = 0; step < steps; ++step) {
    stepRunner.step(step);
    productRunner.step(step);
  }
  const double copyLarge = copyRate(size_t(128) << 20, threads),
               copySmall = copyRate(size_t(256) << 10, threads);

  double inStep = 0, alone = 0, flops = 0, others = 0;
  for (const auto &[command, seconds] : productRunner.best)
    alone += seconds;
  std::map<std::string, Row> rows;
  for (const plan::Program &program : whole.programs)
    for (const Command &command : program.commands) {
      const auto found = stepRunner.best.find(&command);
      if (found == stepRunner.best.end())
        continue;
      const int64_t runs = stepRunner.runsOf(program.name);
      if (const auto *product = command.as<plan::Matmul>()) {
        inStep += found->second;
        flops += 2.0 * double(product->m) * double(product->n) * double(product->k) *
                 double(product->batch) * double(runs);
        continue;
      }
      others += found->second;
      std::string name = command.label.substr(0, command.label.find(' '));
      std::string what = name;
      if (const auto *launch = command.as<plan::Launch>()) {
        name = whole.kernels[launch->kernel].name;
        what = name + "  " + whole.kernels[launch->kernel].summary;
      }
      Row &row = rows[name];
      row.what = what;
      row.runs += runs;
      row.seconds += found->second;
      row.bytes += compiled.bytes.at(&command) * double(runs);
    }

  // The shortest whole step still holds what other programs took; the sum of the shortest commands
  // hardly does.
  const double sum = inStep + others;
  fmt::print("{}: {} thread{}, shortest of {} steps\n", whole.model, threads,
             threads == 1 ? "" : "s", steps);
  fmt::print("whole step               {:9.2f} ms\n", 1e3 * stepRunner.seconds);
  fmt::print("its commands, each at its shortest {:9.2f} ms: products {:.2f} ms ({:.0f}%, {:.1f} "
             "GFLOP/s), the rest {:.2f} ms\n",
             1e3 * sum, 1e3 * inStep, 100 * inStep / sum, 1e-9 * flops / inStep, 1e3 * others);
  fmt::print("products alone           {:9.2f} ms\n", 1e3 * alone);
  fmt::print("commands / products alone  {:.2f}  (at most 1.60 wanted; whole step: {:.2f})\n",
             sum / alone, stepRunner.seconds / alone);
  fmt::print("products alone / in step   {:.2f}  (at least 0.85 wanted)\n", alone / inStep);
  fmt::print("memcpy {:.1f} GB/s of 128 MiB, {:.1f} GB/s of 256 KiB, read and written\n\n",
             1e-9 * copyLarge, 1e-9 * copySmall);

  std::vector<Row> sorted;
  for (auto &[name, row] : rows)
    sorted.push_back(row);
  std::sort(sorted.begin(), sorted.end(),
            [](const Row &a, const Row &b) { return a.seconds > b.seconds; });
  fmt::print("     ms     %   runs        MB    GB/s  /memcpy  kernel\n");
  for (size_t i = 0; i < std::min(lines, sorted.size()); ++i) {
    const Row &row = sorted[i];
    const double rate = row.bytes / row.seconds;
    fmt::print("{:7.3f} {:5.1f} {:6} {:9.2f} {:7.1f} {:8.2f}  {}\n", 1e3 * row.seconds,
               100 * row.seconds / sum, row.runs, 1e-6 * row.bytes, 1e-9 * rate, rate / copyLarge,
               row.what.substr(0, 110));
  }
  return 0;
}
