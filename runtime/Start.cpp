// Initial states, from wherever the user says, and scalars.
#include "runtime/Start.h"

#include "runtime/files/ModelConfig.h"
#include "runtime/files/TensorFolder.h"
#include "runtime/plan/Expr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <thread>
#include <vector>

namespace nano {

namespace {

/// Whether values of the type are converted on their way.
bool isFloat(const std::string &type) { return type == "F32" || type == "BF16" || type == "F16"; }

} // namespace

Result<Start> Start::open(const plan::Plan &plan, const std::string &planHash,
                          const StartOptions &options, const Report &report) {
  Start start;
  start.options = options;
  if (!options.init.empty() && !options.resume.empty())
    return badInput(
        "--init and --resume exclude each other: a checkpoint brings its own parameters");
  if (!options.initIgnore.empty() && options.init.empty())
    return badInput("--init-ignore: needs --init FOLDER");
  if (!options.init.empty())
    if (Status status = start.openInit(plan, report); !status)
      return status.error();
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

Status Start::openInit(const plan::Plan &plan, const Report &report) {
  std::vector<plan::StoredParameter> stored;
  for (const plan::State *state : statesOf(plan, plan::State::Role::Parameter))
    stored.push_back({state->name, state->shape, state->type});
  const ImportOptions how{options.initIgnore, options.allowNonFinite};
  auto import = [&](TensorFolder folder, const plan::Interchange &interchange) -> Status {
    Result<ImportedTensors> imported =
        ImportedTensors::open(std::move(folder), interchange, stored, how, report);
    if (!imported)
      return imported.error();
    parameters = std::make_unique<ImportedTensors>(std::move(*imported));
    return ok();
  };
  std::error_code error;
  if (std::filesystem::is_directory(options.init, error)) {
    Result<TensorFolder> folder = TensorFolder::open(options.init);
    if (!folder)
      return folder.error();
    if (!plan.interchange.config.empty())
      if (Status status = checkConfig(options.init, plan.interchange.config); !status)
        return status;
    return import(std::move(*folder), plan.interchange);
  }

  // One file has the names and the layout of --dump-params.
  Result<SafetensorsFile> file = SafetensorsFile::open(options.init);
  if (!file)
    return file.error();
  const TensorTable wanted = tensorsOf(statesOf(plan, plan::State::Role::Parameter));
  TensorTable found = file->table();
  bool isConverted = false;
  for (auto &[name, info] : found)
    if (auto place = wanted.find(name); place != wanted.end() && info.type != place->second.type &&
                                        isFloat(info.type) && isFloat(place->second.type)) {
      info.type = place->second.type;
      isConverted = true;
    }
  if (Status status = checkTensors(options.init, found, wanted); !status) {
    const std::string config = std::filesystem::path(options.init).replace_filename("config.json");
    if (!std::filesystem::exists(config, error))
      return status;
    return badInput(fmt::format("{}; {} stands beside it: name the folder to read it as a "
                                "HuggingFace checkpoint",
                                status.error().message, config));
  }
  if (!options.initIgnore.empty())
    return badInput("--init-ignore: needs --init FOLDER, of a HuggingFace checkpoint");
  if (isConverted)
    return import(TensorFolder(std::move(*file)), {});
  parameters = std::make_unique<StoredTensors>(std::move(*file));
  return ok();
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
  std::vector<Role> roles = {Role::Gradient, Role::Constant};
  if (!checkpoint)
    roles.push_back(Role::Optimizer);
  const std::vector<const plan::State *> all = statesOf(plan, Role::Parameter);
  const bool isComplete = parameters && std::all_of(all.begin(), all.end(), [&](const auto *state) {
                            return parameters->has(state->name);
                          });
  if (!checkpoint && !isComplete)
    roles.push_back(Role::Parameter);
  const FillState fill = [&](const plan::State &state, uint64_t seed, uint64_t first,
                             uint64_t count) { return device.fill(state, seed, first, count); };
  if (Status status =
          initializeStates(plan, seat, roles, options.seed, threads, write, clear, say, fill);
      !status)
    return status;
  auto load = [&](const TensorSource &stored, Role role) {
    std::vector<const plan::State *> states = statesOf(plan, role);
    if (!isComplete && !checkpoint)
      std::erase_if(states, [&](const auto *state) { return !stored.has(state->name); });
    return loadStates(stored, states, seat, write, clear, say,
                      /*requireFinite=*/!options.allowNonFinite);
  };
  if (checkpoint)
    if (Status status = load(checkpoint->optimizer, Role::Optimizer); !status)
      return status;
  if (parameters)
    if (Status status = load(*parameters, Role::Parameter); !status)
      return status;
  if (checkpoint)
    if (Status status = load(checkpoint->parameters, Role::Parameter); !status)
      return status;
  std::vector<const plan::State *> copies;
  for (const plan::State &state : plan.states) {
    const bool isStored =
        state.role == Role::Parameter && parameters && parameters->has(state.name);
    if (isCopy(state) && !isStored &&
        std::find(roles.begin(), roles.end(), state.role) != roles.end())
      copies.push_back(&state);
  }
  return copyStates(plan, std::move(copies), readerOf(device), write, say);
}

namespace {

plan::Variables variablesAt(const plan::Plan &plan, int64_t step, int world) {
  const plan::Training &training = plan::stageAt(plan, step);
  plan::Variables variables;
  variables.step = double(step);
  variables.numIterations = double(training.numIterations);
  const int64_t sequences = training.seqLen > 0 ? training.globalBatch / training.seqLen : 0;
  variables.sequences = double(sequences);
  variables.world = world;
  return variables;
}

} // namespace

Status writeScalars(const plan::Plan &plan, int64_t step, int world, Device &device, uint64_t seed,
                    int64_t sequence) {
  plan::Variables variables = variablesAt(plan, step, world);
  variables.sequence = double(sequence);
  variables.seedLow = int32_t(uint32_t(seed));
  variables.seedHigh = int32_t(uint32_t(seed >> 32));
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

bool scalarsVaryBySequence(const plan::Plan &plan) {
  return std::any_of(plan.scalars.begin(), plan.scalars.end(), [](const plan::Scalar &scalar) {
    return plan::variesBySequence(scalar.value);
  });
}

const std::string &programOf(const plan::Training &stage, int64_t step, int64_t microBatch,
                             int world) {
  const plan::StepPrograms &programs = stage.phases[size_t(step) % stage.phases.size()];
  const int64_t count = stage.globalBatch / (stage.seqLen * world);
  if (microBatch + 1 == count)
    return programs.last;
  return microBatch == 0 ? programs.first : programs.next;
}

double scalarAt(const plan::Plan &plan, const std::string &name, int64_t step, int world) {
  for (const plan::Scalar &scalar : plan.scalars)
    if (scalar.name == name)
      return plan::evaluate(scalar.value, variablesAt(plan, step, world));
  return 0;
}

double logScalar(const plan::Plan &plan, int64_t step, int world) {
  return scalarAt(plan, plan.training.logScalar, step, world);
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

Status writeSequence(const SequenceData &data, uint32_t tokens, uint32_t targets,
                     const std::vector<plan::Column> &columns, Device &device) {
  const uint64_t bytes = data.tokens.size() * sizeof(int32_t);
  if (Status status = device.write(tokens, 0, data.tokens.data(), bytes); !status)
    return status;
  if (Status status = device.write(targets, 0, data.targets.data(), bytes); !status)
    return status;
  for (size_t i = 0; i < columns.size(); ++i)
    if (Status status =
            device.write(columns[i].buffer, 0, data.columns[i].data(), data.columns[i].size());
        !status)
      return status;
  return ok();
}

} // namespace nano
