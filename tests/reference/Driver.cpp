// The training loop of the reference: read, train, validate, write.
#include "tests/reference/Driver.h"

#include "tests/reference/Data.h"
#include "tests/reference/Gpt124m.h"
#include "tests/reference/Gpt2.h"
#include "tests/reference/Llama.h"
#include "tests/reference/Safetensors.h"
#include "tests/reference/Speedrun26.h"
#include "tests/reference/Speedrun44.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cmath>

namespace nano::reference {

namespace {

struct Options {
  std::string model, init, train, val, dumpParams, randomInit;
  std::vector<std::string> overrides;
  int64_t steps = -1, valTokens = 0;
  uint64_t seed = 0;
};

void declare(CLI::App &app, Options &options) {
  app.add_option("model", options.model, "gpt124m, speedrun26, speedrun44, gpt2 or llama")
      ->required()
      ->check(CLI::IsMember({"gpt124m", "speedrun26", "speedrun44", "gpt2", "llama"}));
  app.add_option("--init", options.init, "initial parameters (safetensors)");
  app.add_option("--train", options.train, "pattern of the training shards");
  app.add_option("--steps", options.steps, "optimizer steps")->check(CLI::NonNegativeNumber);
  app.add_option("-D", options.overrides, "name=value: sets a hyperparameter")
      ->expected(1)
      ->take_all();
  app.add_option("--dump-params", options.dumpParams, "write the final parameters (safetensors)");
  auto *val = app.add_option("--val", options.val, "pattern of the validation shards");
  auto *valTokens = app.add_option("--val-tokens", options.valTokens, "tokens of the validation")
                        ->check(CLI::PositiveNumber);
  val->needs(valTokens);
  valTokens->needs(val);
  app.add_option("--random-init", options.randomInit,
                 "instead of training, write parameters none of which is zero or constant, from "
                 "which runs in f32 and f64 stay comparable");
  app.add_option("--seed", options.seed, "seed of --random-init")->capture_default_str();
}

std::unique_ptr<Model> makeModel(const Options &options) {
  const bool isGpt2 = options.model == "gpt2", isLlama = options.model == "llama",
             is26 = options.model == "speedrun26", is44 = options.model == "speedrun44";
  Hyperparameters values = isLlama  ? llamaHyperparameters()
                           : isGpt2 ? gpt2Hyperparameters()
                           : is26   ? speedrun26Hyperparameters()
                           : is44   ? speedrun44Hyperparameters()
                                    : gpt124mHyperparameters();
  for (const std::string &assignment : options.overrides)
    values.override(assignment);
  require(values.integer("global_batch") % values.integer("seq_len") == 0,
          "-D global_batch: must be a multiple of seq_len");
  require(options.steps <= values.integer("num_iterations"),
          "--steps: the schedules end at num_iterations " +
              std::to_string(values.integer("num_iterations")));
  if (isLlama)
    return std::make_unique<Llama>(std::move(values));
  if (isGpt2)
    return std::make_unique<Gpt2>(std::move(values));
  if (is26)
    return std::make_unique<Speedrun26>(std::move(values));
  if (is44)
    return std::make_unique<Speedrun44>(std::move(values));
  return std::make_unique<Gpt124m>(std::move(values));
}

/// Mean loss per token over the first `tokens` tokens, after `step` steps.
Real validate(const Model &model, const Tensors &parameters, const Options &options,
              std::ostream &notes) {
  const int64_t length = model.sizes().integer("val_seq_len");
  require(options.valTokens % length == 0, "--val-tokens: must be a multiple of val_seq_len");
  ShardReader reader(expandPattern("--val", options.val), length,
                     model.sizes().integer("vocab_size"), notes);
  Real loss = 0;
  for (int64_t done = 0; done < options.valTokens; done += length) {
    const std::vector<Sequence> sequences = reader.next(length);
    require(reader.wraps() == 0, "--val " + options.val + ": holds fewer than --val-tokens tokens");
    loss += model.tokenLossSum(parameters, sequences[0], options.steps, nullptr);
  }
  return loss / options.valTokens;
}

std::vector<Sequence> nextBatch(const Model &model, ShardReader &reader) {
  const Hyperparameters &sizes = model.sizes();
  const int64_t length = sizes.integer("seq_len");
  switch (model.documents()) {
  case Documents::contiguous:
    break;
  case Documents::aligned:
    return reader.nextAligned(length, sizes.integer("eos_token"));
  case Documents::cut:
    return reader.nextCut(length, sizes.integer("eos_token"), sizes.integer("longest_document"));
  }
  return reader.next(length);
}

void run(const Options &options, std::ostream &out, std::ostream &err) {
  const std::unique_ptr<Model> model = makeModel(options);
  if (!options.randomInit.empty()) {
    writeSafetensors(options.randomInit, fillRandomly(*model, options.seed));
    return;
  }
  require(!options.init.empty() && !options.train.empty() && options.steps >= 0,
          "--init, --train and --steps are needed to train; see --help");
  Tensors parameters = readSafetensors(options.init, model->parameterShapes());
  ShardReader reader(expandPattern("--train", options.train),
                     model->sizes().integer("global_batch"), model->sizes().integer("vocab_size"),
                     err);
  const auto report = [&](int64_t step, const char *what, Real loss) {
    if (!std::isfinite(loss))
      throw std::runtime_error("step " + std::to_string(step) + ": the loss is not finite");
    out << nlohmann::ordered_json{{"step", step}, {what, loss}} << std::endl;
  };

  OptimizerState state;
  for (int64_t step = 0; step < options.steps; ++step) {
    report(step + 1, "train_loss",
           trainStep(*model, parameters, state, nextBatch(*model, reader), step));
  }
  if (!options.val.empty())
    report(options.steps, "val_loss", validate(*model, parameters, options, err));
  if (!options.dumpParams.empty())
    writeSafetensors(options.dumpParams, parameters);
}

/// The first line of a message.
std::string firstLine(const std::string &text) { return text.substr(0, text.find('\n')); }

} // namespace

int runReference(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err) {
  CLI::App app(
      "Trains gpt124m, speedrun26, speedrun44, gpt2 or llama in double precision with plain loops: "
      "the oracle for the "
      "compiler's f32 results.",
      "nano-reference");
  Options options;
  declare(app, options);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    run(options, out, err);
    return 0;
  } catch (const CLI::CallForHelp &) {
    out << app.help();
    return 0;
  } catch (const CLI::ParseError &error) {
    err << "nano-reference: " << firstLine(error.what()) << "; see --help" << std::endl;
    return 2;
  } catch (const InputError &error) {
    err << "nano-reference: " << firstLine(error.what()) << std::endl;
    return 2;
  } catch (const std::exception &error) {
    err << "nano-reference: " << firstLine(error.what()) << std::endl;
    return 1;
  }
}

} // namespace nano::reference
