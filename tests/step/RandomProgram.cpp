// Generates and damages step programs.
#include "tests/step/RandomProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace nano::step;

namespace nano::test {

std::vector<int64_t> elementsOf(Value view) {
  auto type = cast<MemRefType>(view.getType());
  auto [strides, offset] = type.getStridesAndOffset();
  std::vector<int64_t> elements = {offset};
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    std::vector<int64_t> next;
    for (int64_t element : elements)
      for (int64_t i = 0; i < type.getDimSize(dim); ++i)
        next.push_back(element + i * strides[dim]);
    elements = std::move(next);
  }
  return elements;
}

namespace {

class Generator {
public:
  Generator(MLIRContext &context, uint32_t seed, ProgramSize size)
      : builder(&context), random(seed), size(size) {}

  OwningOpRef<ModuleOp> run();

private:
  int64_t below(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
  }
  bool chance(int percent) { return below(100) < percent; }

  /// A buffer, state or input of the program, with which elements hold a value.
  struct Storage {
    Value value;
    std::vector<bool> written;
    MemRefType type() const { return cast<MemRefType>(value.getType()); }
  };

  MemRefType randomType();
  void addBody(kernel::FuncOp kernel);
  void declare(ModuleOp module);
  void program(ModuleOp module, StringRef name, StringRef role = "", int64_t phase = -1,
               bool makes = false);
  void step(ModuleOp module);
  void command();
  /// A random part of a storage.
  Value view(Storage &storage, bool contiguous = false);
  /// A part whose elements are all written, or null after a few tries.
  Value readable(bool contiguous = false);
  bool isWritten(Value view);
  void markWritten(Value view);
  Storage &storageOf(Value view);
  bool overlap(Value a, Value b);
  void launch();

  OpBuilder builder;
  std::mt19937 random;
  ProgramSize size;
  Type f32 = builder.getF32Type();
  std::vector<Storage> storages;
  llvm::SmallDenseSet<StringAttr> anew; ///< gradients that each step writes before it reads them
};

MemRefType Generator::randomType() {
  SmallVector<int64_t> shape;
  for (int64_t rank = 1 + below(size.rank); rank > 0; --rank)
    shape.push_back(1 + below(size.dimension));
  if (chance(50))
    shape.back() *= 16;
  return MemRefType::get(shape, f32);
}

Generator::Storage &Generator::storageOf(Value view) {
  const void *key = bufferKey(view);
  for (Storage &storage : storages)
    if (bufferKey(storage.value) == key)
      return storage;
  llvm_unreachable("a view of nothing");
}

bool Generator::isWritten(Value view) {
  Storage &storage = storageOf(view);
  return llvm::all_of(elementsOf(view), [&](int64_t i) { return storage.written[i]; });
}

void Generator::markWritten(Value view) {
  Storage &storage = storageOf(view);
  for (int64_t i : elementsOf(view))
    storage.written[i] = true;
}

bool Generator::overlap(Value a, Value b) {
  if (bufferKey(a) != bufferKey(b))
    return false;
  std::vector<int64_t> elements = elementsOf(a);
  for (int64_t i : elementsOf(b))
    if (llvm::is_contained(elements, i))
      return true;
  return false;
}

Value Generator::view(Storage &storage, bool contiguous) {
  MemRefType type = storage.type();
  if (contiguous || chance(60))
    return storage.value;
  auto [strides, offset] = type.getStridesAndOffset();
  SmallVector<int64_t> shape(type.getShape());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (chance(50))
      continue;
    int64_t first = below(shape[dim]);
    offset += first * strides[dim];
    shape[dim] = 1 + below(shape[dim] - first);
  }
  auto part =
      MemRefType::get(shape, f32, StridedLayoutAttr::get(builder.getContext(), offset, strides));
  return ViewOp::create(builder, builder.getUnknownLoc(), part, storage.value);
}

Value Generator::readable(bool contiguous) {
  for (int tries = 0; tries < 12; ++tries) {
    Value candidate = view(storages[below(int64_t(storages.size()))], contiguous);
    if (isWritten(candidate))
      return candidate;
    if (auto unused = candidate.getDefiningOp<ViewOp>())
      unused.erase();
  }
  return {};
}

void Generator::launch() {
  int64_t inputs = below(3), outputs = 1 + below(2);
  bool inPlace = inputs > 0 && chance(40);
  SmallVector<Value> operands;
  for (int64_t i = 0; i < inputs; ++i) {
    Value input = readable();
    if (!input)
      return;
    operands.push_back(input);
  }
  // An update in place is one argument, read and written; all other outputs keep clear of every
  // operand.
  for (int64_t i = inPlace ? 1 : 0; i < outputs; ++i) {
    Value output = view(storages[below(int64_t(storages.size()))]);
    if (llvm::any_of(operands, [&](Value other) { return overlap(other, output); }))
      return;
    operands.push_back(output);
  }
  if (inPlace)
    for (Value other : ArrayRef(operands).drop_front())
      if (overlap(other, operands.front()))
        return;
  std::string kernel = (Twine("k") + Twine(inputs) + (inPlace ? "i" : "") + Twine(outputs)).str();
  LaunchOp::create(builder, builder.getUnknownLoc(), kernel, operands, 1, 0, DenseI64ArrayAttr(),
                   nullptr);
  for (Value written : ArrayRef(operands).drop_front(inputs))
    markWritten(written);
}

void Generator::command() {
  Location loc = builder.getUnknownLoc();
  int64_t kind = below(100);
  if (kind < 55) {
    launch();
  } else if (kind < 70) {
    if (Value target = readable(true))
      AllReduceOp::create(builder, loc, target);
  } else if (kind < 80) {
    Value target = view(storages[below(int64_t(storages.size()))], true);
    FillOp::create(builder, loc, target);
    markWritten(target);
  } else if (kind < 90) {
    Value source = readable(true);
    if (!source)
      return;
    for (Storage &storage : storages)
      if (storage.type().getNumElements() == cast<MemRefType>(source.getType()).getNumElements() &&
          !overlap(storage.value, source)) {
        CopyOp::create(builder, loc, source, storage.value);
        markWritten(storage.value);
        return;
      }
  } else {
    // y = w·w, for a square readable w.
    Value w = readable();
    auto type = w ? cast<MemRefType>(w.getType()) : MemRefType();
    if (!w || !matrixLayout(type))
      return;
    for (Storage &storage : storages) {
      std::optional<MatrixLayout> c = matrixLayout(storage.type()), a = matrixLayout(type);
      if (!c || overlap(storage.value, w) || c->batch != a->batch || c->rows != a->rows ||
          c->columns != a->rows)
        continue;
      bool accumulate = isWritten(storage.value) && chance(50);
      MatmulOp::create(builder, loc, w, w, Value(), Value(), accumulate ? storage.value : Value(),
                       storage.value, false, true, APFloat(1.0), APFloat(1.0), 0, nullptr);
      markWritten(storage.value);
      return;
    }
  }
}

/// Every output is the sum of all inputs, element by element.
void Generator::addBody(kernel::FuncOp kernel) {
  OpBuilder::InsertionGuard guard(builder);
  Block *block = kernel.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  Location loc = kernel.getLoc();
  const unsigned last = block->getNumArguments() - 1;
  Value step = arith::ConstantIndexOp::create(builder, loc, 1);
  auto loop = scf::ForOp::create(builder, loc, block->getArgument(last - 1),
                                 block->getArgument(last), step);
  kernel::ReturnOp::create(builder, loc);
  builder.setInsertionPointToStart(loop.getBody());
  Value sum = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  for (unsigned i = 0; i < kernel.getNumBuffers(); ++i)
    if (kernel.reads(i)) {
      Value element =
          memref::LoadOp::create(builder, loc, block->getArgument(i), loop.getInductionVar());
      sum = arith::AddFOp::create(builder, loc, sum, element);
    }
  for (unsigned i = 0; i < kernel.getNumBuffers(); ++i)
    if (kernel.writes(i))
      memref::StoreOp::create(builder, loc, sum, block->getArgument(i), loop.getInductionVar());
}

void Generator::declare(ModuleOp module) {
  Location loc = module.getLoc();
  auto init =
      graph::InitAttr::get(builder.getContext(), "constant", builder.getDenseF64ArrayAttr({0.0}));
  for (int i = 0; i < 3; ++i) {
    MemRefType type = randomType();
    const bool isGradient = i < size.gradients;
    auto state =
        graph::StateOp::create(builder, loc, "state" + std::to_string(i), tensorOf(type),
                               isGradient ? graph::Role::Gradient : graph::Role::Optimizer, init);
    if (isGradient && chance(70))
      anew.insert(state.getSymNameAttr());
  }
  InputOp::create(builder, loc, builder.getStringAttr("in"), TypeAttr::get(randomType()),
                  UnitAttr(), IntegerAttr());
  InputOp::create(builder, loc, builder.getStringAttr("out"), TypeAttr::get(randomType()),
                  builder.getUnitAttr(), IntegerAttr());
  auto kernels = ModuleOp::create(builder, loc, kernelModuleName);
  OpBuilder inner = OpBuilder::atBlockEnd(kernels.getBody());
  for (int64_t inputs = 0; inputs < 3; ++inputs)
    for (int64_t outputs = 1; outputs < 3; ++outputs)
      for (bool inPlace : {false, true}) {
        if (inPlace && inputs == 0)
          continue;
        int64_t count = inputs + outputs - (inPlace ? 1 : 0);
        SmallVector<Type> types(count, MemRefType::get({ShapedType::kDynamic}, f32));
        types.push_back(MemRefType::get({0}, builder.getI8Type()));
        types.append(2, builder.getIndexType());
        std::string name =
            (Twine("k") + Twine(inputs) + (inPlace ? "i" : "") + Twine(outputs)).str();
        SmallVector<kernel::ParameterAttr> parameters;
        for (int64_t i = 0; i < count; ++i)
          parameters.push_back(kernel::ParameterAttr::get(
              builder.getContext(),
              kernel::accessOf(i < inputs, i >= inputs || (inPlace && i == 0))));
        auto function = kernel::FuncOp::create(inner, loc, name, builder.getFunctionType(types, {}),
                                               parameters);
        function.setIterations(8);
        if (size.hasBodies)
          addBody(function);
      }
}

/// `makes`: it is the first of a step. With a `phase` it runs in no other one.
void Generator::program(ModuleOp module, StringRef name, StringRef role, int64_t phase,
                        bool makes) {
  builder.setInsertionPointToEnd(module.getBody());
  auto program = ProgramOp::create(builder, module.getLoc(), name,
                                   role.empty() ? StringAttr() : builder.getStringAttr(role));
  if (phase >= 0)
    program.setPhasesAttr(builder.getDenseI64ArrayAttr({phase}));
  const bool isOfStep = !role.empty() && role != "validate";
  builder.createBlock(&program.getBody());
  storages.clear();
  auto add = [&](Value value, bool written) {
    storages.push_back(
        {value, std::vector<bool>(cast<MemRefType>(value.getType()).getNumElements(), written)});
  };
  for (auto state : module.getOps<graph::StateOp>()) {
    const bool isAnew = anew.contains(state.getSymNameAttr());
    // Between steps what the next one writes anew is nobody's.
    if (isAnew && (!isOfStep || (!makes && chance(30))))
      continue;
    add(StateOp::create(builder, module.getLoc(), memrefOf(state.getTensorType()),
                        state.getSymName()),
        !isAnew || !makes);
  }
  InputOp output;
  for (auto input : module.getOps<InputOp>()) {
    add(StateOp::create(builder, module.getLoc(), input.getType(), input.getSymName()),
        !input.getOutput());
    if (input.getOutput())
      output = input;
  }
  for (int64_t count = size.buffers + below(size.moreBuffers); count > 0; --count)
    add(BufferOp::create(builder, module.getLoc(), randomType(), "b" + std::to_string(count),
                         IntegerAttr()),
        false);
  for (int64_t count = size.commands + below(size.moreCommands); count > 0; --count)
    command();
  if (makes)
    for (Storage &storage : storages)
      if (isa<StateOp>(storage.value.getDefiningOp()) && !isWritten(storage.value) &&
          bufferKey(storage.value) != output.getSymNameAttr().getAsOpaquePointer())
        FillOp::create(builder, module.getLoc(), storage.value);
  for (Storage &storage : storages) // the host reads the output
    if (bufferKey(storage.value) == output.getSymNameAttr().getAsOpaquePointer())
      FillOp::create(builder, module.getLoc(), storage.value);
}

/// The programs of steps, and perhaps one that runs between them.
void Generator::step(ModuleOp module) {
  const bool adds = chance(40), repeats = adds && chance(50), updates = chance(70);
  const int64_t phases = chance(30) ? 2 : 1;
  if (phases == 2) {
    OwningOpRef<ModuleOp> declared = parseSourceString<ModuleOp>(
        "nano.optimizer @all of \"all\" lr @lr {inits = array<f64>, kind = \"sgd\", states = [], "
        "every = 2 : i64}\n"
        "nano.scalar @lr : f32 {\n"
        "^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):\n"
        "  nano.yield %step : f64\n"
        "}\n",
        builder.getContext());
    builder.setInsertionPointToEnd(module.getBody());
    for (Operation &op : *declared->getBody())
      builder.clone(op);
  }
  if (adds)
    program(module, "first", "first", -1, /*makes=*/true);
  if (repeats)
    program(module, "next", "next");
  for (int64_t phase = 0; phase < phases; ++phase) {
    const std::string suffix = phases == 1 ? "" : "_" + std::to_string(phase);
    const int64_t only = phases == 1 ? -1 : phase;
    program(module, "last" + suffix, "last", only, /*makes=*/!adds);
    if (updates)
      program(module, "update" + suffix, "update", only);
  }
  if (chance(40))
    program(module, "validate", "validate");
}

OwningOpRef<ModuleOp> Generator::run() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToEnd(module->getBody());
  declare(*module);
  if (size.gradients > 0 && chance(60)) {
    step(*module);
    return module;
  }
  anew.clear();
  program(*module, "first");
  if (chance(50))
    program(*module, "update");
  return module;
}

} // namespace

OwningOpRef<ModuleOp> randomModule(MLIRContext &context, uint32_t seed, ProgramSize size) {
  return Generator(context, seed, size).run();
}

std::string hideAccess(ModuleOp module, std::mt19937 &random) {
  auto below = [&](size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
  };
  const KernelTable kernels(module);
  SmallVector<LaunchOp> launches;
  module.walk([&](LaunchOp launch) { launches.push_back(launch); });
  if (launches.empty())
    return "";
  kernel::FuncOp kernel = kernels.find(launches[below(launches.size())].getKernelAttr().getAttr());
  const size_t argument = below(kernel.getNumBuffers());
  // What an argument must not be called: what is left of the truth, or the other thing.
  const bool reads = kernel.reads(argument), writes = kernel.writes(argument);
  const bool states = reads && writes ? below(2) == 0 : !reads; // to read it, else to write it
  kernel.setParameter(
      argument, kernel::ParameterAttr::get(module.getContext(), kernel::accessOf(states, !states)));
  return "kernel @" + kernel.getSymName().str() + " states only to " + (states ? "read" : "write") +
         " argument " + std::to_string(argument);
}

std::string damage(ModuleOp module, std::mt19937 &random) {
  auto below = [&](size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
  };
  SmallVector<ProgramOp> programs(module.getOps<ProgramOp>());
  ProgramOp program = programs[below(programs.size())];
  Block &block = program.getBody().front();
  SmallVector<WaitOp> waits(block.getOps<WaitOp>());
  SmallVector<RecordOp> records(block.getOps<RecordOp>());
  SmallVector<BufferOp> buffers(block.getOps<BufferOp>());
  SmallVector<Operation *> commands;
  for (Operation &op : block)
    if (isa<StepCommandOpInterface>(op) && !isa<WaitOp, RecordOp>(op))
      commands.push_back(&op);
  int64_t arena = int64_t(arenaOf(module).getBytes());
  switch (below(7)) {
  case 6: {
    SmallVector<graph::StateOp> gradients;
    for (auto state : module.getOps<graph::StateOp>())
      if (state.getRole() == graph::Role::Gradient)
        gradients.push_back(state);
    if (gradients.empty())
      return "";
    graph::StateOp state = gradients[below(gradients.size())];
    // Over what lives on as a whole it may not lie at all.
    int64_t behind = 0;
    for (auto other : module.getOps<graph::PlacedOpInterface>()) {
      auto kept = dyn_cast<graph::StateOp>(*other);
      if (kept && kept.getRole() == graph::Role::Gradient)
        continue;
      auto input = dyn_cast<InputOp>(*other);
      const int64_t bytes = kept    ? contiguousBytes(memrefOf(kept.getTensorType()))
                            : input ? contiguousBytes(cast<MemRefType>(input.getType()))
                                    : 4;
      behind = std::max(behind, other.getOffsetAttr().getInt() + bytes);
    }
    behind = (behind + 255) / 256 * 256;
    const int64_t room = arena - behind - contiguousBytes(memrefOf(state.getTensorType()));
    if (room < 0)
      return "";
    const int64_t offset = behind + int64_t(below(size_t(room / 256) + 1)) * 256;
    state.setOffset(offset);
    return "moved gradient " + state.getSymName().str() + " to " + std::to_string(offset);
  }
  case 0: {
    if (waits.empty())
      return "";
    WaitOp wait = waits[below(waits.size())];
    std::string what = "dropped the wait for event " + std::to_string(wait.getEvent());
    wait.erase();
    return what;
  }
  case 1: {
    BufferOp buffer = buffers[below(buffers.size())];
    ArenaOp planned = arenaOf(module);
    const int64_t begin = buffer.getHost() ? planned.getHostBegin() : 0;
    int64_t room = ((buffer.getHost() ? planned.getEnd() : arena) - begin -
                    contiguousBytes(buffer.getType())) /
                   256;
    int64_t offset = begin + int64_t(below(size_t(room) + 1)) * 256;
    buffer.setOffset(offset);
    return "moved buffer " + buffer.getName().str() + " to " + std::to_string(offset);
  }
  case 2: {
    if (commands.empty())
      return "";
    auto command = cast<StepCommandOpInterface>(commands[below(commands.size())]);
    command.moveToStream(below(3));
    return "moved a command to stream " + std::to_string(command.getStream());
  }
  case 3: {
    if (commands.size() < 2)
      return "";
    size_t i = below(commands.size() - 1);
    commands[i]->moveAfter(commands[i + 1]);
    return "moved command " + std::to_string(i) + " behind the next";
  }
  case 4: {
    if (commands.empty())
      return "";
    size_t i = below(commands.size());
    commands[i]->erase();
    return "dropped command " + std::to_string(i);
  }
  default: {
    if (records.empty())
      return "";
    RecordOp record = records[below(records.size())];
    Operation *previous = record->getPrevNode();
    while (previous && !isa<StepCommandOpInterface>(previous))
      previous = previous->getPrevNode();
    if (!previous)
      return "";
    record->moveBefore(previous);
    return "recorded event " + std::to_string(record.getEvent()) + " earlier";
  }
  }
}

} // namespace nano::test
