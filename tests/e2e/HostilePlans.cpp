// Plans whose checksums are right and whose numbers lie: every kind of number in a plan becomes
// hostile in turn. What reading and validating refuse is done; the rest runs and must not crash.
//
//   nano-hostile-plans PLAN WORLD RUNS SCRATCH COMMAND…
//
// COMMAND runs the plan that {} stands for. Of the plans that validation lets pass, RUNS, evenly
// spread, are run; exit statuses 0, 1 and 2 are answers, anything else and no end are not.
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace nano;
using Json = nlohmann::ordered_json;
using Pointer = Json::json_pointer;

constexpr std::chrono::seconds runLimit(100);
constexpr uint64_t line = 256; ///< bytes: buffers begin at multiples

/// The numbers of a document by what kind of number they are: the path, in which an index into a
/// list of objects or lists is left out, and one into a list of numbers as good as.
void collect(const Json &json, const Pointer &at, const std::string &kind,
             std::map<std::string, std::vector<Pointer>> &found) {
  if (json.is_number())
    found[kind].push_back(at);
  if (json.is_object())
    for (const auto &item : json.items())
      collect(item.value(), at / item.key(), kind + "/" + item.key(), found);
  if (json.is_array()) {
    const bool isFlat = std::none_of(json.begin(), json.end(),
                                     [](const Json &item) { return item.is_structured(); });
    constexpr size_t numbered = 14; // operations of expressions, a launch's first operands
    for (size_t i = 0; i < json.size(); ++i)
      collect(json[i], at / i, kind + (isFlat && i < numbered ? "/" + std::to_string(i) : "/*"),
              found);
  }
}

/// What becomes of a number.
std::vector<Json> hostileValues(const Json &value) {
  std::vector<Json> values = {0,
                              -1,
                              uint64_t(1) << 31,
                              uint64_t(UINT32_MAX),
                              uint64_t(1) << 53,
                              uint64_t(INT64_MAX),
                              uint64_t(1) << 63,
                              UINT64_MAX,
                              1e308,
                              "nan"};
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    values.emplace_back(number + 1);
    if (number > 0)
      values.emplace_back(number - 1);
    // By a line, which rules of alignment let pass.
    values.emplace_back(number + line);
    if (number >= line)
      values.emplace_back(number - line);
  } else if (value.is_number_integer()) {
    values.emplace_back(value.get<int64_t>() + 1);
  } else {
    values.emplace_back(-value.get<double>());
  }
  return values;
}

/// A plan that validation lets pass.
struct Survivor {
  std::string what;
  size_t document = 0; ///< which of a plan's texts is changed, the common one or the variant's
  std::string text;    ///< to this
};

/// Changes one number at a time.
class Attack {
public:
  explicit Attack(plan::Plan given) : good(std::move(given)) {
    const std::span<const plan::Plan> one(&good, 1);
    const std::vector<std::string> texts = {plan::commonText(one), plan::variantText(good)};
    std::vector<std::vector<int64_t>> worlds;
    documents = {Json::parse(texts[0]), Json::parse(texts[1])};
    // What a change of the common text leaves as it is, and what one of the variant's does.
    others.resize(2);
    plan::readVariant(texts[1], others[0]);
    plan::readCommon(texts[0], others[1], worlds);
    for (plan::Plan &other : others) {
      other.worlds = good.worlds;
      other.code = good.code;
      other.source = good.source;
      other.checks = good.checks;
      other.ours = good.ours;
    }
  }

  void run() {
    for (size_t document : {0, 1}) {
      std::map<std::string, std::vector<Pointer>> kinds;
      collect(documents[document], Pointer(), document == 0 ? "common" : "variant", kinds);
      for (const auto &[kind, places] : kinds) {
        ++kindCount;
        // The first, and one from somewhere.
        std::vector<size_t> chosen = {0};
        if (places.size() > 1)
          chosen.push_back(1 + std::hash<std::string>()(kind) % (places.size() - 1));
        for (size_t i : chosen)
          change(document, places[i]);
      }
    }
  }

  /// The file of a plan that passes.
  std::string bytesOf(const Survivor &survivor) const {
    return plan::serialize(read(survivor.document, survivor.text));
  }

  size_t kindCount = 0, changes = 0, refused = 0;
  std::vector<Survivor> survivors;
  std::vector<std::string> wrong;

private:
  void change(size_t document, const Pointer &place) {
    // The text is printed once; the values are put where a mark stands in it.
    const std::string mark = "here is the number";
    const Json before = std::exchange(documents[document][place], mark);
    const std::string text = documents[document].dump(), quoted = Json(mark).dump();
    documents[document][place] = before;
    const size_t at = text.find(quoted);
    for (const Json &value : hostileValues(before)) {
      if (value == before)
        continue;
      ++changes;
      const std::string changed =
          text.substr(0, at) + value.dump() + text.substr(at + quoted.size());
      const std::string what = place.to_string() + ": " + before.dump() + " → " + value.dump();
      const std::string message = refusal(document, changed);
      if (message.empty())
        survivors.push_back({what, document, changed});
      else
        ++refused;
      if (message.find('\n') != std::string::npos)
        wrong.push_back(what + ": refused with more than a line: " + message);
    }
  }

  /// The plan with one of its texts changed; throws as the readers do.
  plan::Plan read(size_t document, const std::string &text) const {
    plan::Plan changed = others[document];
    if (document == 0) {
      std::vector<std::vector<int64_t>> worlds;
      plan::readCommon(text, changed, worlds);
      changed.worlds = worlds.at(0);
    } else {
      plan::readVariant(text, changed);
    }
    return changed;
  }

  /// The message of the reader or the validator; empty when the plan passes.
  std::string refusal(size_t document, const std::string &text) const {
    try {
      const plan::Plan changed = read(document, text);
      if (Status status = plan::validate(changed); !status)
        return status.error().message;
      return changed == good ? "nothing has changed" : "";
    } catch (const plan::FieldError &error) {
      return error.what();
    }
  }

  plan::Plan good;
  std::vector<Json> documents;    ///< of the texts
  std::vector<plan::Plan> others; ///< without what each text says
};

/// What a command did.
struct Outcome {
  int status = -1; ///< of waitpid
  bool ended = false;
  std::string output;
};

Outcome run(std::vector<std::string> command, const std::string &log) {
  Outcome outcome;
  std::vector<char *> words;
  for (std::string &word : command)
    words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + runLimit;
  while (!(outcome.ended = ::waitpid(child, &outcome.status, WNOHANG) == child)) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &outcome.status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::ifstream file(log);
  outcome.output.assign(std::istreambuf_iterator<char>(file), {});
  return outcome;
}

/// What is wrong with it; empty when the command ran, or said in a line why it did not.
std::string complaint(const Outcome &outcome) {
  if (!outcome.ended)
    return "no end within " + std::to_string(runLimit.count()) + " s";
  if (!WIFEXITED(outcome.status))
    return "ended by signal " + std::to_string(WTERMSIG(outcome.status));
  const int status = WEXITSTATUS(outcome.status);
  if (status > 2)
    return "exit status " + std::to_string(status);
  if (status != 0 && outcome.output.empty())
    return "exit status " + std::to_string(status) + " without a line";
  // The emulator holds every access against the buffers that the launch was given.
  for (const char *word :
       {"terminate called", "Assertion", "Sanitizer", "what():", "out of bounds"})
    if (outcome.output.find(word) != std::string::npos)
      return std::string("a message with '") + word + "'";
  return "";
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 6)
    return 2;
  Result<plan::Plan> good = plan::readPlanFile(argv[1], std::strtoll(argv[2], nullptr, 10));
  if (!good) {
    std::printf("%s\n", good.error().message.c_str());
    return 2;
  }
  const size_t runs = std::strtoull(argv[3], nullptr, 10);
  const std::string scratch = argv[4];
  Attack attack(std::move(*good));
  attack.run();

  std::vector<const Survivor *> chosen;
  const size_t all = attack.survivors.size(), count = std::min(runs, all);
  for (size_t i = 0; i < count; ++i)
    chosen.push_back(&attack.survivors[i * all / count]);
  std::mutex guard;
  size_t next = 0;
  std::map<int, size_t> statuses;
  auto work = [&](int worker) {
    const std::string path = scratch + "/hostile" + std::to_string(worker);
    for (;;) {
      const Survivor *survivor = nullptr;
      {
        std::lock_guard lock(guard);
        if (next == chosen.size())
          return;
        survivor = chosen[next++];
      }
      std::ofstream(path + ".plan", std::ios::binary) << attack.bytesOf(*survivor);
      std::vector<std::string> command(argv + 5, argv + argc);
      std::replace(command.begin(), command.end(), std::string("{}"), path + ".plan");
      const Outcome outcome = run(command, path + ".log");
      const std::string why = complaint(outcome);
      std::lock_guard lock(guard);
      if (why.empty())
        ++statuses[WEXITSTATUS(outcome.status)];
      else
        attack.wrong.push_back(survivor->what + ": " + why + "\n" + outcome.output);
    }
  };
  std::vector<std::thread> workers;
  const int threads = int(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  for (int i = 0; i < threads; ++i)
    workers.emplace_back(work, i);
  for (std::thread &worker : workers)
    worker.join();

  std::printf("%zu changes of %zu kinds of numbers: %zu refused; %zu of the others run: %zu did "
              "their step, %zu failed with a line, %zu were refused by nanorun\n",
              attack.changes, attack.kindCount, attack.refused, chosen.size(), statuses[0],
              statuses[1], statuses[2]);
  for (const std::string &each : attack.wrong)
    std::printf("WRONG %s\n", each.c_str());
  return attack.wrong.empty() ? 0 : 1;
}
