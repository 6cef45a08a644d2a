// Machines as JSON: every key checked, errors that name it.
#include "ir/machine/JsonFile.h"
#include "ir/machine/KnownMachines.h"
#include "ir/machine/Machine.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace nano::machine {
namespace {

namespace json = llvm::json;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;

/// Numbers beyond these are mistakes, whatever their unit; within them no time and no sum of times
/// overflows or comes out as nothing.
constexpr double least = 1e-9, most = 1e12;
/// Bytes of a curve.
constexpr double mostBytes = 1e18;

bool isInRange(double value) { return value >= least && value <= most; }

/// One object of the file. Reads keys, remembers which were asked for and the first thing wrong.
class Reader {
public:
  Reader(const json::Object &object, std::string path, std::string &wrong)
      : object(object), path(std::move(path)), wrong(wrong) {}
  /// Every key must have been asked for.
  ~Reader() {
    for (const auto &entry : object)
      if (std::find(known.begin(), known.end(), entry.first.str()) == known.end()) {
        std::string keys;
        for (const std::string &key : known)
          keys += (keys.empty() ? "" : ", ") + key;
        say(entry.first.str(), "unknown key; the known are " + keys);
      }
  }
  Reader(const Reader &) = delete;

  bool has(StringRef key) {
    known.push_back(key.str());
    return object.get(key) != nullptr;
  }

  /// A number above 0 (from 0 on with `orZero`), times `unit`; nothing is said of one that may
  /// miss.
  double number(StringRef key, double unit, bool orZero = false) {
    known.push_back(key.str());
    const json::Value *value = object.get(key);
    std::optional<double> found = value ? value->getAsNumber() : std::nullopt;
    if (!found || *found < 0 || (*found == 0 && !orZero)) {
      say(key, orZero ? "a number of 0 or more is wanted" : "a number above 0 is wanted");
      return 1;
    }
    if (*found != 0 && !isInRange(*found)) {
      say(key, "a number from 1e-9 to 1e12 is wanted");
      return 1;
    }
    return *found * unit;
  }
  int64_t integer(StringRef key) {
    double found = number(key, 1);
    if (found != std::floor(found) || found > 1e9) {
      say(key, "a whole number is wanted");
      return 1;
    }
    return int64_t(found);
  }
  bool flag(StringRef key) {
    std::optional<bool> found = object.getBoolean(key);
    if (!found)
      say(key, "true or false is wanted");
    return found.value_or(false);
  }
  std::string text(StringRef key) {
    known.push_back(key.str());
    std::optional<StringRef> found = object.getString(key);
    if (!found)
      say(key, "a text is wanted");
    return found.value_or("").str();
  }
  std::vector<std::string> texts(StringRef key) {
    known.push_back(key.str());
    std::vector<std::string> found;
    const json::Array *array = object.getArray(key);
    for (const json::Value &value : array ? *array : json::Array())
      found.push_back(value.getAsString().value_or("").str());
    if (found.empty() || std::count(found.begin(), found.end(), ""))
      say(key, "a list of texts is wanted");
    return found;
  }
  /// A rate, or a list of [bytes, rate] with ascending bytes.
  Curve curve(StringRef key, double unit) {
    known.push_back(key.str());
    Curve curve;
    const json::Value *value = object.get(key);
    if (std::optional<double> rate = value ? value->getAsNumber() : std::nullopt)
      curve.points = {{1, *rate * unit}};
    else if (const json::Array *array = value ? value->getAsArray() : nullptr)
      for (const json::Value &entry : *array) {
        const json::Array *pair = entry.getAsArray();
        std::optional<double> size, rate;
        if (pair && pair->size() == 2) {
          size = (*pair)[0].getAsNumber();
          rate = (*pair)[1].getAsNumber();
        }
        curve.points.emplace_back(size.value_or(-1), rate.value_or(-1) * unit);
      }
    double before = 0;
    bool isGood = !curve.points.empty(), isSensible = true;
    for (auto [size, rate] : curve.points) {
      isGood = isGood && size > before && rate > 0;
      isSensible = isSensible && size >= least && size <= mostBytes && isInRange(rate / unit);
      before = size;
    }
    if (isGood && isSensible)
      return curve;
    say(key, isGood ? "rates from 1e-9 to 1e12 are wanted, of 1e-9 to 1e18 bytes"
                    : "a rate above 0 is wanted, or a list of [bytes, rate] with ascending bytes");
    return {{{1, 1}}};
  }
  /// The object at `key`; an empty one, and a message, where there is none.
  const json::Object &inner(StringRef key) {
    static const json::Object none;
    known.push_back(key.str());
    const json::Object *found = object.getObject(key);
    if (!found)
      say(key, "an object is wanted");
    return found ? *found : none;
  }
  std::string at(StringRef key) const { return path.empty() ? key.str() : path + "." + key.str(); }
  void say(StringRef key, const Twine &what) {
    if (wrong.empty())
      wrong = at(key) + ": " + what.str();
  }

private:
  const json::Object &object;
  std::string path;
  std::string &wrong;
  std::vector<std::string> known;
};

constexpr double pico = 1e-12, micro = 1e-6, giga = 1e9, tera = 1e12;

/// Special functions over other operations where a machine does not say: NVIDIA's multiprocessors
/// do 16 and 128 a clock.
constexpr double specialShare = 1.0 / 8;

Products readProducts(Reader &all, StringRef key, std::string &wrong) {
  Reader reader(all.inner(key), all.at(key), wrong);
  Products products;
  products.flops = reader.number("tflops", tera);
  products.units = reader.integer("units");
  products.rows = reader.integer("tile_rows");
  products.columns = reader.integer("tile_columns");
  products.startup = reader.number("startup_k", 1, /*orZero=*/true);
  products.split = reader.has("split_k") ? reader.integer("split_k") : 0;
  return products;
}

Energy readEnergy(Reader &file, std::string &wrong) {
  Reader reader(file.inner("energy"), "energy", wrong);
  Energy energy;
  energy.limit = reader.number("limit_w", 1);
  energy.idle = reader.number("idle_w", 1, /*orZero=*/true);
  if (energy.idle >= energy.limit)
    reader.say("idle_w", "less than limit_w is wanted");
  energy.byte = reader.number("pj_per_byte", pico);
  Reader flop(reader.inner("pj_per_flop"), "energy.pj_per_flop", wrong);
  energy.vector = flop.number("vector", pico);
  energy.special = flop.number("special", pico);
  constexpr const char *names[] = {"f32", "bf16", "f8"};
  for (size_t type = 0; type < numElementTypes; ++type)
    energy.product[type] = flop.number(names[type], pico);
  return energy;
}

NodeLinks readLinks(Reader &file, std::string &wrong) {
  Reader reader(file.inner("node"), "node", wrong);
  NodeLinks links;
  links.latency = reader.number("latency_us", micro);
  links.members = reader.integer("measured_ranks");
  if (links.members < 2)
    reader.say("measured_ranks", "at least 2 are wanted");
  if (reader.has("beside_kernels")) {
    links.besideKernels = reader.number("beside_kernels", 1);
    if (links.besideKernels < 1)
      reader.say("beside_kernels", "at least 1 is wanted");
  }
  Reader bus(reader.inner("bus_gb_per_s"), "node.bus_gb_per_s", wrong);
  constexpr const char *names[] = {"all_reduce", "reduce_scatter", "all_gather"};
  for (size_t kind = 0; kind < numCollectives; ++kind) {
    Curve &curve = links.bus[kind] = bus.curve(names[kind], giga);
    double factor = double(links.members - 1) / double(links.members) * (kind == 0 ? 2 : 1);
    double before = links.latency;
    for (auto [size, rate] : curve.points) {
      double seconds = factor * size / rate;
      if (curve.points.size() > 1 && seconds < before)
        bus.say(
            names[kind],
            llvm::formatv("{0:F0} bytes take {1:F1} us, less than {2}", size, seconds / micro,
                          size == curve.points.front().first ? "the latency" : "the point before")
                .str());
      before = seconds;
    }
  }
  return links;
}

Machine readMachine(const json::Object &object, std::string &wrong) {
  Reader file(object, "", wrong);
  Machine machine;
  machine.name = file.text("machine");
  machine.summary = file.text("summary");
  machine.sources = file.texts("sources");
  machine.ranksPerNode = file.integer("ranks_per_node");
  {
    Reader memory(file.inner("memory"), "memory", wrong);
    machine.memory = memory.curve("gb_per_s", giga);
    if (memory.has("gib"))
      machine.memoryBytes = memory.number("gib", double(1 << 30));
  }
  {
    Reader launch(file.inner("launch"), "launch", wrong);
    machine.launch = launch.number("host_us", micro);
    if (launch.has("graph_node_us"))
      machine.graphNode = launch.number("graph_node_us", micro);
    machine.oneAtATime = launch.has("one_at_a_time") && launch.flag("one_at_a_time");
  }
  {
    Reader kernels(file.inner("kernels"), "kernels", wrong);
    machine.vectorFlops = kernels.number("vector_tflops", tera);
    machine.specialFlops = kernels.has("special_tflops") ? kernels.number("special_tflops", tera)
                                                         : machine.vectorFlops * specialShare;
    machine.attentionFlops = kernels.number("attention_tflops", tera);
    if (kernels.has("beside_collectives")) {
      machine.besideCollectives = kernels.number("beside_collectives", 1);
      if (machine.besideCollectives < 1)
        kernels.say("beside_collectives", "at least 1 is wanted");
    }
  }
  {
    Reader products(file.inner("products"), "products", wrong);
    constexpr const char *names[] = {"f32", "bf16", "f8"};
    for (size_t type = 0; type < numElementTypes; ++type)
      machine.products[type] = readProducts(products, names[type], wrong);
  }
  if (file.has("energy"))
    machine.energy = readEnergy(file, wrong);
  machine.node = readLinks(file, wrong);
  {
    Reader host(file.inner("host"), "host", wrong);
    machine.host.latency = host.number("latency_us", micro, /*orZero=*/true);
    machine.host.bandwidth = host.number("gb_per_s", giga);
  }
  machine.hasNetwork = file.has("network");
  if (machine.hasNetwork) {
    Reader network(file.inner("network"), "network", wrong);
    machine.network.latency = network.number("latency_us", micro);
    machine.network.bandwidth = network.curve("gb_per_s_of_a_rank", giga);
  }
  return machine;
}

Error failure(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

} // namespace

llvm::Expected<Machine> parse(StringRef text, StringRef name) {
  llvm::Expected<json::Value> value = parseJson(text);
  if (!value)
    return failure(name + ": no JSON: " + llvm::toString(value.takeError()));
  const json::Object *object = value->getAsObject();
  if (!object)
    return failure(name + ": a JSON object is wanted");
  std::string wrong;
  Machine machine = readMachine(*object, wrong);
  if (!wrong.empty())
    return failure(name + ": " + wrong);
  return machine;
}

std::vector<std::string> knownMachines() {
  std::vector<std::string> names;
  for (auto [name, text] : knownMachineFiles())
    names.push_back(name.str());
  return names;
}

llvm::Expected<Machine> load(StringRef nameOrPath) {
  for (auto [name, text] : knownMachineFiles())
    if (name == nameOrPath)
      return parse(text, name);
  if (llvm::sys::fs::exists(nameOrPath)) {
    llvm::Expected<std::string> text = readText(nameOrPath, input::machine);
    return text ? parse(*text, nameOrPath) : llvm::Expected<Machine>(text.takeError());
  }
  std::string known;
  for (const std::string &name : knownMachines())
    known += (known.empty() ? "" : ", ") + name;
  return failure("machine '" + nameOrPath +
                 "': No such file or directory; name a JSON file or one of " + known);
}

} // namespace nano::machine
