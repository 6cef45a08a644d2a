// Reads the texts of a plan file from JSON and checks every field's presence and type; an error
// carries the field's path.
#include "runtime/plan/Expr.h"
#include "runtime/plan/InterchangeJson.h"
#include "runtime/plan/JsonDepth.h"
#include "runtime/plan/JsonNode.h"
#include "runtime/plan/JsonTree.h"
#include "runtime/plan/PlanJson.h"

#include <initializer_list>
#include <optional>

namespace nano::plan {
namespace {

class Reader {
public:
  void common(const JsonNode &root, Plan &plan, std::vector<std::vector<int64_t>> &variants);
  void variant(const JsonNode &root, Plan &plan);

private:
  static void text(const JsonNode &item, std::string &value) { value = item.string(); }
  template <typename T, typename Fn>
  void list(const JsonNode &node, std::vector<T> &items, Fn read) {
    items.resize(node.size());
    for (size_t i = 0; i < items.size(); ++i)
      read(node[i], items[i]);
  }

  Location location(const JsonNode &node, size_t first) {
    JsonNode file = node[first];
    size_t index = file.integer<uint32_t>();
    if (index >= files.size())
      file.fail("there are only " + std::to_string(files.size()) + " files");
    return {files[index], node[first + 1].integer<uint32_t>()};
  }
  Location at(JsonObject &object) {
    auto node = object.find("at");
    if (!node)
      return {};
    node->expectSize(2);
    return location(*node, 0);
  }

  static Ref ref(const JsonNode &node, size_t first) {
    JsonNode access = node[first + 2];
    unsigned bits = access.integer<uint32_t>();
    if (bits > 3)
      access.fail("expected 0 to 3: 1 for read plus 2 for written");
    return {node[first].integer<uint32_t>(), node[first + 1].integer<uint64_t>(), (bits & 2) != 0,
            (bits & 1) != 0, node[first + 3].integer<uint64_t>()};
  }
  static Ref ref(const JsonNode &node) {
    node.expectSize(4);
    return ref(node, 0);
  }
  /// The refs that fill the list from item `first` on.
  static std::vector<Ref> refs(const JsonNode &node, size_t first) {
    size_t size = node.size();
    if (size < first || (size - first) % 4)
      node.fail("expected " + std::to_string(first) + " items and then groups of four");
    std::vector<Ref> result;
    result.reserve((size - first) / 4);
    for (; first < size; first += 4)
      result.push_back(ref(node, first));
    return result;
  }

  /// The one of `values` that has this name.
  template <typename T>
  static T named(const JsonNode &node, const char *what, std::initializer_list<T> values) {
    const std::string name = node.string();
    for (T value : values)
      if (name == nameOf(value))
        return value;
    node.fail("'" + name + "' is not " + what);
  }

  void expression(const JsonNode &node, Expr &expr, int depth);
  /// `isPart`: of a value by blocks, which no part is itself.
  void init(const JsonNode &node, Init &init, bool isPart = false);
  void buffer(const JsonNode &node, Buffer &buffer);
  void sharding(const JsonNode &node, Sharding &sharding);
  void state(const JsonNode &node, State &state);
  void scalar(const JsonNode &node, Scalar &scalar);
  static void tensorMap(const JsonNode &node, TensorMap &map);
  void kernel(const JsonNode &node, Kernel &kernel);
  void program(const JsonNode &node, Program &program);
  void command(const JsonNode &node, Command &command);
  void matmul(JsonObject &object, const JsonNode &sizes, Command &command);
  void checks(const JsonNode &node, IndexChecks &checks);
  static void column(const JsonNode &node, Column &column);
  void report(const JsonNode &node, Report &report);
  void training(const JsonNode &node, Training &training);

  std::vector<std::string> files;
};

void Reader::expression(const JsonNode &node, Expr &expr, int depth) {
  if (depth > 100)
    node.fail("expressions nest more than 100 deep");
  if (node.isString() && !JsonNode::nonFinite(node.string())) {
    expr.kind = Expr::Kind::Variable;
    expr.variable = node.string();
    return;
  }
  if (!node.isArray()) {
    expr.constant = node.number();
    return;
  }
  std::string name = node[0].string();
  for (auto kind = Expr::Kind::Neg; kind <= Expr::Kind::Select; kind = Expr::Kind(int(kind) + 1)) {
    if (name != nameOf(kind))
      continue;
    node.expectSize(1 + arity(kind));
    expr.kind = kind;
    expr.operands.resize(arity(kind));
    for (size_t i = 0; i < expr.operands.size(); ++i)
      expression(node[i + 1], expr.operands[i], depth + 1);
    return;
  }
  node.fail("unknown operation '" + name + "'");
}

void Reader::init(const JsonNode &node, Init &init, bool isPart) {
  JsonObject object(node);
  auto pair = [&](const JsonNode &values, double &first, double &second) {
    values.expectSize(2);
    first = values[0].number();
    second = values[1].number();
  };
  if (auto values = object.find("normal")) {
    init.kind = Init::Kind::Normal;
    pair(*values, init.mean, init.stddev);
  } else if (auto values = object.find("uniform")) {
    init.kind = Init::Kind::Uniform;
    pair(*values, init.low, init.high);
  } else if (auto values = object.find("sign")) {
    init.kind = Init::Kind::Sign;
    init.values = values->numbers();
  } else if (auto offset = object.find("data")) {
    init.kind = Init::Kind::Data;
    init.offset = offset->integer<uint64_t>();
  } else if (auto source = object.find("copy")) {
    init.kind = Init::Kind::Copy;
    init.source = source->string();
  } else if (auto source = object.find("transpose")) {
    init.kind = Init::Kind::Transpose;
    init.source = source->string();
  } else if (auto blocks = object.find("blocks"); blocks && !isPart) {
    init.kind = Init::Kind::Blocks;
    for (size_t i = 0; i < blocks->size(); ++i) {
      const JsonNode block = (*blocks)[i];
      block.expectSize(2);
      init.counts.push_back(block[0].integer<uint64_t>());
      this->init(block[1], init.parts.emplace_back(), true);
    }
  } else {
    init.values = object["constant"].numbers();
  }
  object.close();
}

void Reader::buffer(const JsonNode &node, Buffer &buffer) {
  JsonObject object(node);
  buffer.name = object["name"].string();
  buffer.offset = object["offset"].integer<uint64_t>();
  buffer.bytes = object["bytes"].integer<uint64_t>();
  buffer.type = object["type"].type();
  buffer.shape = object["shape"].integers<int64_t>();
  buffer.location = at(object);
  object.close();
}

void Reader::sharding(const JsonNode &node, Sharding &sharding) {
  JsonObject object(node);
  sharding.ranks = object["ranks"].ranks();
  sharding.parts = object["parts"].integer<int64_t>();
  sharding.chunk = object["chunk"].integer<int64_t>();
  list(object["pieces"], sharding.pieces, [](const JsonNode &item, Sharding::Piece &piece) {
    JsonObject object(item);
    piece.name = object["name"].string();
    piece.shape = object["shape"].integers<int64_t>();
    piece.offset = object["offset"].integer<int64_t>();
    object.close();
  });
  object.close();
}

void Reader::state(const JsonNode &node, State &state) {
  JsonObject object(node);
  state.name = object["name"].string();
  JsonNode role = object["role"];
  std::string roleName = role.string();
  if (roleName == "parameter")
    state.role = State::Role::Parameter;
  else if (roleName == "optimizer")
    state.role = State::Role::Optimizer;
  else if (roleName == "gradient")
    state.role = State::Role::Gradient;
  else if (roleName == "constant")
    state.role = State::Role::Constant;
  else
    role.fail("unknown role '" + roleName + "'");
  state.type = object["type"].type();
  state.shape = object["shape"].integers<int64_t>();
  state.buffer = object["buffer"].integer<uint32_t>();
  init(object["init"], state.init);
  if (auto parts = object.find("sharding"))
    sharding(*parts, state.sharding.emplace());
  if (auto optimizer = object.find("optimizer"))
    state.optimizer = optimizer->string();
  if (auto rate = object.find("learningRate"))
    state.learningRate = rate->number();
  state.location = at(object);
  object.close();
}

void Reader::scalar(const JsonNode &node, Scalar &scalar) {
  JsonObject object(node);
  scalar.name = object["name"].string();
  scalar.type = object["type"].type();
  scalar.offset = object["offset"].integer<uint64_t>();
  expression(object["value"], scalar.value, 0);
  object.close();
}

void Reader::tensorMap(const JsonNode &node, TensorMap &map) {
  node.expectSize(8);
  map.argument = node[0].integer<uint32_t>();
  map.type = node[1].type();
  map.columns = node[2].integer<uint64_t>();
  map.rows = node[3].integer<uint64_t>();
  map.rowBytes = node[4].integer<uint64_t>();
  map.boxColumns = node[5].integer<uint32_t>();
  map.boxRows = node[6].integer<uint32_t>();
  map.swizzleBytes = node[7].integer<uint32_t>();
}

void Reader::kernel(const JsonNode &node, Kernel &kernel) {
  JsonObject object(node);
  kernel.name = object["name"].string();
  kernel.summary = object["summary"].string();
  kernel.scratchBytes = object["scratch"].integer<uint64_t>();
  if (auto flops = object.find("flops"))
    kernel.flops = flops->number();
  if (auto flops = object.find("flopsPerKey"))
    kernel.flopsPerKey = flops->number();
  JsonNode at = object["at"];
  if (at.size() % 2)
    at.fail("expected pairs of file and line");
  for (size_t i = 0; i < at.size(); i += 2)
    kernel.locations.push_back(location(at, i));
  if (auto source = object.find("source")) {
    kernel.source = source->string();
    JsonNode block = object["block"];
    block.expectSize(4);
    kernel.threads = block[0].integer<uint32_t>();
    kernel.iterationsPerBlock = block[1].integer<int64_t>();
    kernel.sharedBytes = block[2].integer<uint64_t>();
    kernel.maxSegments = block[3].integer<uint32_t>();
  }
  if (auto cluster = object.find("cluster"))
    kernel.clusterBlocks = cluster->integer<uint32_t>();
  if (auto maps = object.find("maps"))
    list(*maps, kernel.tensorMaps, tensorMap);
  list(object["reaches"], kernel.reaches, [](const JsonNode &item, Kernel::Reach &reach) {
    reach.iterations = item[0].integer<int64_t>();
    for (size_t i = 1; i < item.size(); ++i)
      reach.bytes.push_back(item[i].integer<uint64_t>());
  });
  object.close();
}

void Reader::program(const JsonNode &node, Program &program) {
  JsonObject object(node);
  program.name = object["name"].string();
  program.streams = object["streams"].integer<uint32_t>();
  program.events = object["events"].integer<uint32_t>();
  list(object["commands"], program.commands,
       [&](const JsonNode &item, Command &value) { command(item, value); });
  object.close();
}

void Reader::matmul(JsonObject &object, const JsonNode &sizes, Command &command) {
  auto fill = [&](const JsonNode &node, std::initializer_list<int64_t *> fields) {
    node.expectSize(fields.size());
    size_t i = 0;
    for (int64_t *field : fields)
      *field = node[i++].integer<int64_t>();
  };
  fill(sizes, {&command.m, &command.n, &command.k, &command.batch});
  JsonNode types = object["types"];
  types.expectSize(3);
  command.aType = types[0].type();
  command.bType = types[1].type();
  command.cType = types[2].type();
  if (auto transpose = object.find("transpose")) {
    transpose->expectSize(2);
    command.transposeA = (*transpose)[0].boolean();
    command.transposeB = (*transpose)[1].boolean();
  }
  fill(object["ld"], {&command.lda, &command.ldb, &command.ldc, &command.ldd});
  if (auto stride = object.find("stride"))
    fill(*stride, {&command.strideA, &command.strideB, &command.strideC, &command.strideD});
  if (auto scale = object.find("scale")) {
    scale->expectSize(2);
    command.alpha = (*scale)[0].number();
    command.beta = (*scale)[1].number();
  }
  command.a = ref(object["a"]);
  command.b = ref(object["b"]);
  command.c = ref(object["c"]);
  if (command.beta != 0)
    command.d = ref(object["d"]);
  if (auto scale = object.find("scaleA")) {
    command.scaled = true;
    command.scaleA = ref(*scale);
    command.scaleB = ref(object["scaleB"]);
    if (auto blocks = object.find("scaleBlocks"))
      fill(*blocks, {&command.scaleBlock, &command.scaleRowsA, &command.scaleRowsB,
                     &command.scaleStridesA[0], &command.scaleStridesA[1],
                     &command.scaleStridesB[0], &command.scaleStridesB[1]});
  }
}

void Reader::command(const JsonNode &node, Command &command) {
  using Kind = Command::Kind;
  JsonObject object(node);
  auto moves = [&](const char *key, Kind kind) {
    auto type = object.find(key);
    if (!type)
      return false;
    command.kind = kind;
    command.type = type->type();
    if (auto ranks = object.find("ranks"))
      command.ranks = ranks->ranks();
    if (auto maximum = object.find("maximum"))
      command.maximum = maximum->boolean();
    command.refs = refs(object["refs"], 0);
    command.counts = object["counts"].integers<int64_t>();
    return true;
  };
  if (auto kernel = object.find("launch")) {
    command.kind = Kind::Launch;
    command.kernel = kernel->integer<uint32_t>();
    list(object["segments"], command.segments, [](const JsonNode &item, Command::Segment &segment) {
      segment.iterations = item[0].integer<int64_t>();
      segment.grain = item[1].integer<int64_t>();
      segment.args = refs(item, 2);
    });
  } else if (auto sizes = object.find("matmul")) {
    command.kind = Kind::Matmul;
    matmul(object, *sizes, command);
  } else if (auto event = object.find("record")) {
    command.kind = Kind::RecordEvent;
    command.event = event->integer<uint32_t>();
  } else if (auto event = object.find("wait")) {
    command.kind = Kind::WaitEvent;
    command.event = event->integer<uint32_t>();
  } else if (!moves("allReduce", Kind::AllReduce) && !moves("reduceScatter", Kind::ReduceScatter) &&
             !moves("allGather", Kind::AllGather) && !moves("shard", Kind::Shard) &&
             !moves("fill", Kind::Fill) && !moves("copy", Kind::Copy)) {
    node.fail("expected one of launch, matmul, allReduce, reduceScatter, allGather, shard, fill, "
              "copy, record, wait");
  }
  if (auto stream = object.find("stream"))
    command.stream = stream->integer<uint32_t>();
  if (auto label = object.find("label"))
    command.label = label->string();
  command.location = at(object);
  object.close();
}

void Reader::checks(const JsonNode &node, IndexChecks &checks) {
  JsonObject object(node);
  checks.buffer = object["buffer"].integer<uint32_t>();
  list(object["list"], checks.list, [&](const JsonNode &item, IndexChecks::Check &check) {
    JsonObject object(item);
    check.kind = object["kind"].string();
    check.bound = object["bound"].integer<int64_t>();
    check.location = at(object);
    object.close();
  });
  object.close();
}

void Reader::column(const JsonNode &node, Column &column) {
  JsonObject object(node);
  using Type = Column::Type;
  column.name = object["name"].string();
  column.type =
      named(object["type"], "a column's type", {Type::F32, Type::BF16, Type::I32, Type::U8});
  column.ofTarget = object["ofTarget"].boolean();
  column.buffer = object["buffer"].integer<uint32_t>();
  object.close();
}

void Reader::report(const JsonNode &node, Report &report) {
  using Kind = Report::Kind;
  JsonObject object(node);
  report.name = object["name"].string();
  report.kind = named(object["kind"], "a report's kind",
                      {Kind::Mean, Kind::Norm, Kind::Max, Kind::Histogram});
  report.buffer = object["buffer"].integer<uint32_t>();
  if (auto offset = object.find("offset"))
    report.offset = offset->integer<uint64_t>();
  if (auto edges = object.find("edges"))
    list(*edges, report.edges, [](const JsonNode &item, double &edge) { edge = item.number(); });
  if (auto eachStep = object.find("eachStep"))
    report.eachStep = eachStep->boolean();
  if (auto phases = object.find("phases"))
    report.phases = phases->integers<int64_t>();
  object.close();
}

void Reader::training(const JsonNode &node, Training &training) {
  JsonObject object(node);
  list(object["phases"], training.phases, [](const JsonNode &item, StepPrograms &phase) {
    JsonObject object(item);
    phase.first = object["first"].string();
    phase.next = object["next"].string();
    phase.last = object["last"].string();
    phase.update = object["update"].string();
    object.close();
  });
  training.validate = object["validate"].string();
  training.seqLen = object["seqLen"].integer<int64_t>();
  training.valSeqLen = object["valSeqLen"].integer<int64_t>();
  training.globalBatch = object["globalBatch"].integer<int64_t>();
  training.numIterations = object["numIterations"].integer<int64_t>();
  training.vocabSize = object["vocabSize"].integer<int64_t>();
  training.eosToken = object["eosToken"].integer<int64_t>();
  training.tokensBuffer = object["tokensBuffer"].integer<uint32_t>();
  training.targetsBuffer = object["targetsBuffer"].integer<uint32_t>();
  training.valTokensBuffer = object["valTokensBuffer"].integer<uint32_t>();
  training.valTargetsBuffer = object["valTargetsBuffer"].integer<uint32_t>();
  training.lossBuffer = object["lossBuffer"].integer<uint32_t>();
  training.valLossBuffer = object["valLossBuffer"].integer<uint32_t>();
  training.trainLossIsSum = object["trainLossIsSum"].boolean();
  training.valLossIsSum = object["valLossIsSum"].boolean();
  training.generate = object["generate"].string();
  training.genSeqLen = object["genSeqLen"].integer<int64_t>();
  training.logitsColumns = object["logitsColumns"].integer<int64_t>();
  training.genTokensBuffer = object["genTokensBuffer"].integer<uint32_t>();
  training.logitsBuffer = object["logitsBuffer"].integer<uint32_t>();
  training.logScalar = object["logScalar"].string();
  if (auto stage = object.find("stage")) {
    training.stage = stage->string();
    training.until = object["until"].integer<int64_t>();
  }
  if (auto events = object.find("events"))
    list(*events, training.events, [](const JsonNode &item, Event &event) {
      JsonObject object(item);
      event.program = object["program"].string();
      event.step = object["step"].integer<int64_t>();
      object.close();
    });
  for (auto [name, checks] :
       {std::pair("checks", &training.checks), std::pair("valChecks", &training.valChecks),
        std::pair("genChecks", &training.genChecks)})
    if (auto found = object.find(name))
      this->checks(*found, *checks);
  for (auto [name, columns] :
       {std::pair("columns", &training.columns), std::pair("valColumns", &training.valColumns)})
    if (auto found = object.find(name))
      list(*found, *columns, [](const JsonNode &item, Column &value) { column(item, value); });
  if (auto found = object.find("documents")) {
    JsonObject documents(*found);
    using Rule = Documents::Rule;
    training.documents.rule = named(documents["rule"], "a rule for documents",
                                    {Rule::Contiguous, Rule::Aligned, Rule::Cut, Rule::Packed});
    training.documents.longest = documents["longest"].string();
    training.documents.shuffle = documents["shuffle"].boolean();
    documents.close();
  }
  if (auto reports = object.find("reports"))
    list(*reports, training.reports,
         [&](const JsonNode &item, Report &value) { report(item, value); });
  if (auto measure = object.find("measure")) {
    training.measure = measure->string();
    training.reportBuffer = object["reportBuffer"].integer<uint32_t>();
    list(object["scaledWeights"], training.scaledWeights,
         [](const JsonNode &item, ScaledWeight &weight) {
           JsonObject object(item);
           weight.name = object["name"].string();
           weight.recipe = object["recipe"].string();
           object.close();
         });
  }
  object.close();
}

void Reader::common(const JsonNode &root, Plan &plan, std::vector<std::vector<int64_t>> &variants) {
  JsonObject object(root);
  list(object["files"], files, text);
  plan.model = object["model"].string();
  plan.target = object["target"].string();
  list(object["variants"], variants, [](const JsonNode &item, std::vector<int64_t> &worlds) {
    worlds = item.integers<int64_t>();
  });
  list(object["cpuFeatures"], plan.cpuFeatures, text);
  list(object["hyperparameters"], plan.hyperparameters,
       [](const JsonNode &item, Hyperparameter &value) {
         JsonObject object(item);
         value.name = object["name"].string();
         value.value = object["value"].string();
         value.overridden = object["overridden"].boolean();
         object.close();
       });
  if (auto interchange = object.find("interchange"))
    plan.interchange = readInterchange(*interchange);
  list(object["kernels"], plan.kernels,
       [&](const JsonNode &item, Kernel &value) { kernel(item, value); });
  if (auto sources = object.find("sources"))
    list(*sources, plan.sources, [](const JsonNode &item, Source &value) {
      JsonObject object(item);
      value.name = object["name"].string();
      value.text = object["text"].string();
      object.close();
    });
  object.close();
}

void Reader::variant(const JsonNode &root, Plan &plan) {
  JsonObject object(root);
  list(object["files"], files, text);
  plan.group = object["group"].integer<int64_t>();
  plan.arenaBytes = object["arenaBytes"].integer<uint64_t>();
  list(object["buffers"], plan.buffers,
       [&](const JsonNode &item, Buffer &value) { buffer(item, value); });
  list(object["states"], plan.states,
       [&](const JsonNode &item, State &value) { state(item, value); });
  plan.scalarBuffer = object["scalarBuffer"].integer<uint32_t>();
  list(object["scalars"], plan.scalars,
       [&](const JsonNode &item, Scalar &value) { scalar(item, value); });
  list(object["programs"], plan.programs,
       [&](const JsonNode &item, Program &value) { program(item, value); });
  training(object["training"], plan.training);
  if (auto later = object.find("laterStages"))
    list(*later, plan.laterStages,
         [&](const JsonNode &item, Training &value) { training(item, value); });
  object.close();
}

/// The document; throws when there is none.
JsonTree treeOf(std::string_view text) {
  std::optional<JsonTree> tree = JsonTree::parse(text);
  if (!tree)
    throw FieldError(std::string("the text is not JSON, or ") + tooDeepText);
  return std::move(*tree);
}

} // namespace

void readCommon(std::string_view text, Plan &plan, std::vector<std::vector<int64_t>> &variants) {
  const JsonTree tree = treeOf(text);
  Reader().common(JsonNode(tree), plan, variants);
}

void readVariant(std::string_view text, Plan &plan) {
  const JsonTree tree = treeOf(text);
  Reader().variant(JsonNode(tree), plan);
}

} // namespace nano::plan
