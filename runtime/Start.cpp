// Initial states, from wherever the user says, and scalars.
#include "runtime/Start.h"

#include "runtime/plan/Expr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <thread>
#include <vector>

namespace nano {

Result<Start> Start::open(const plan::Plan &plan, const std::string &planHash,
                          const StartOptions &options, const Report &report) {
  Start start;
  start.options = options;
  if (!options.init.empty() && !options.resume.empty())
    return badInput(
        "--init and --resume exclude each other: a checkpoint brings its own parameters");
  if (!options.init.empty()) {
    Result<SafetensorsFile> file = SafetensorsFile::open(options.init);
    if (!file)
      return file.error();
    if (Status status = checkTensors(options.init, file->table(),
                                     tensorsOf(statesOf(plan, plan::State::Role::Parameter)));
        !status)
      return status.error();
    start.parameters = StoredTensors(std::move(*file));
  }
  if (!options.resume.empty()) {
    Result<Checkpoint> checkpoint = findCheckpoint(options.resume, report);
    if (!checkpoint)
      return checkpoint.error();
    if (Status status = checkPlan(*checkpoint, plan, planHash, report); !status)
      return status.error();
    start.checkpoint = std::move(*checkpoint);
  }
  return start;
}

Result<std::string> Start::initHash() const {
  if (!parameters)
    return std::string();
  Result<uint64_t> hash = parameters->hash();
  return hash ? Result<std::string>(hexText(*hash)) : hash.error();
}

Status Start::write(const plan::Plan &plan, const Seat &seat, Device &device, int threads,
                    const Say &say) const {
  using Role = plan::State::Role;
  const WriteState write = writerOf(device);
  const ClearState clear = [&](const plan::State &state) { return device.clear(state.buffer); };
  // Gradients first and parameters last: the values stand even where lifetimes let buffers share
  // memory.
  std::vector<Role> roles = {Role::Gradient};
  if (!checkpoint)
    roles.push_back(Role::Optimizer);
  if (!checkpoint && !parameters)
    roles.push_back(Role::Parameter);
  if (Status status = initializeStates(plan, seat, roles, options.seed, threads, write, clear, say);
      !status)
    return status;
  auto load = [&](const StoredTensors &stored, Role role) {
    return loadStates(stored, statesOf(plan, role), seat, write, clear, say,
                      /*requireFinite=*/!options.allowNonFinite);
  };
  if (parameters)
    return load(*parameters, Role::Parameter);
  if (!checkpoint)
    return ok();
  if (Status status = load(checkpoint->optimizer, Role::Optimizer); !status)
    return status;
  return load(checkpoint->parameters, Role::Parameter);
}

namespace {

plan::Variables variablesAt(const plan::Training &training, int64_t step, int world) {
  plan::Variables variables;
  variables.step = double(step);
  variables.numIterations = double(training.numIterations);
  const int64_t sequences = training.seqLen > 0 ? training.globalBatch / training.seqLen : 0;
  variables.sequences = double(sequences);
  variables.world = world;
  return variables;
}

} // namespace

Status writeScalars(const plan::Plan &plan, int64_t step, int world, Device &device) {
  plan::Variables variables = variablesAt(plan.training, step, world);
  std::vector<std::byte> block;
  for (const plan::Scalar &scalar : plan.scalars) {
    uint32_t bits = plan::evaluateBits(scalar, variables);
    if (scalar.type == plan::DType::F32 && !std::isfinite(std::bit_cast<float>(bits)))
      return failed(fmt::format("scalar '{}' = {} is not finite at step {}", scalar.name,
                                plan::toString(scalar.value), step));
    block.resize(std::max<size_t>(block.size(), scalar.offset + sizeof bits));
    std::memcpy(block.data() + scalar.offset, &bits, sizeof bits);
  }
  return block.empty() ? ok() : device.write(plan.scalarBuffer, 0, block.data(), block.size());
}

const std::string &programOf(const plan::Training &training, int64_t step, int64_t microBatch,
                             int world) {
  const plan::StepPrograms &programs = training.phases[size_t(step) % training.phases.size()];
  const int64_t count = training.globalBatch / (training.seqLen * world);
  if (microBatch + 1 == count)
    return programs.last;
  return microBatch == 0 ? programs.first : programs.next;
}

double logScalar(const plan::Plan &plan, int64_t step, int world) {
  for (const plan::Scalar &scalar : plan.scalars)
    if (scalar.name == plan.training.logScalar)
      return plan::evaluate(scalar.value, variablesAt(plan.training, step, world));
  return 0;
}

int threadsPerRank(int threads, int world) {
  return threads > 0 ? threads : std::max(1, int(std::thread::hardware_concurrency()) / world);
}

ReadState readerOf(Device &device) {
  return [&device](const plan::State &state, uint64_t offset, void *data, uint64_t bytes) {
    return device.read(state.buffer, offset, data, bytes);
  };
}

WriteState writerOf(Device &device) {
  return [&device](const plan::State &state, uint64_t offset, const void *data, uint64_t bytes) {
    return device.write(state.buffer, offset, data, bytes);
  };
}

} // namespace nano
