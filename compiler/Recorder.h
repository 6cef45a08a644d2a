// What the front end records while a model's body runs: a module of the graph dialect,
// hyperparameters and parameters. One recorder is current at a time; the functions of Frontend.h
// talk to it.
#pragma once

#include "base/Target.h"
#include "compiler/Frontend.h"
#include "compiler/TraceModel.h"
#include "ir/graph/Nano.h"
#include "runtime/plan/Interchange.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <bit>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace nano::graph {
class CustomOp;
} // namespace nano::graph

namespace nano::frontend {

/// Throws ModelError `file:line: message`.
[[noreturn]] void fail(Line at, const std::string &message);

/// Distinct for every model and program of the process, so that a handle tells where it belongs.
uint32_t nextSerial();
/// "f32", "bf16", …
const char *nameOf(DType type);
/// "[49152, 768]"
std::string text(llvm::ArrayRef<int64_t> shape);

/// One node of a schedule.
struct SchedNode {
  enum Kind : uint8_t {
    Number,
    Step,
    Iterations,
    Add,
    Sub,
    Mul,
    Div,
    Neg,
    Min,
    Max,
    Floor,
    Ceil,
    Sqrt,
    Exp,
    Log,
    Cos,
    Pow,
    SelectLess, ///< a < b ? c : d
  };
  Kind kind;
  double number = 0;
  uint32_t operands[4] = {};

  bool operator<(const SchedNode &other) const {
    auto key = [](const SchedNode &node) {
      return std::tuple(node.kind, std::bit_cast<uint64_t>(node.number), node.operands[0],
                        node.operands[1], node.operands[2], node.operands[3]);
    };
    return key(*this) < key(other);
  }
};

class Recorder {
public:
  Recorder(mlir::MLIRContext &context, const TraceInput &input);
  ~Recorder();
  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  /// The recorder of the running model body. Throws when none runs.
  static Recorder &current();

  /// Closes the recording: checks what is known only at the end, and fills the module's attributes.
  TracedModel finish();

  //===- Tensors ---------------------------------------------------------------===//

  /// The value behind a handle in the program being recorded; a parameter or scalar is loaded at
  /// its first use. `what` is the function that asks, for messages.
  mlir::Value value(const Tensor &tensor, Line at, const char *what);
  mlir::Value value(const At &x, const char *what) { return value(x.tensor, x.at, what); }
  /// The type behind a handle, also outside of programs.
  mlir::RankedTensorType typeOf(const Tensor &tensor, Line at, const char *what);
  /// A handle to a value of the program being recorded.
  Tensor handle(mlir::Value value);

  mlir::Location location(Line at);
  mlir::Type elementType(DType type);
  static DType dtypeOf(mlir::Type elementType);
  /// A tensor type; throws when a size is below `least` or their product exceeds 2⁴⁰.
  mlir::RankedTensorType tensorType(llvm::ArrayRef<int64_t> shape, mlir::Type element, Line at,
                                    const char *what, int64_t least = 0);

  /// Creates an op of one result at the point of recording.
  template <typename OpTy, typename... Args> mlir::Value op(Line at, Args &&...args) {
    countOp(at);
    return OpTy::create(builder, location(at), std::forward<Args>(args)...)->getResult(0);
  }
  /// Likewise by its name, of the type that its operands have.
  mlir::Value op(Line at, llvm::StringRef name, mlir::ValueRange operands) {
    countOp(at);
    mlir::OperationState state(location(at), name, operands, operands.front().getType());
    return builder.create(state)->getResult(0);
  }
  mlir::Value constant(double number, mlir::RankedTensorType type, Line at);
  mlir::Value cast(mlir::Value x, mlir::Type element, Line at);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape, Line at);
  /// x repeated to `shape`, aligned at the last dimension; the shapes are known to go together.
  /// Dimensions of size 1 are taken away first, so that the broadcast op only adds dimensions.
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape, Line at);
  mlir::Value reduce(graph::Combiner combiner, mlir::Value x, llvm::ArrayRef<int64_t> dims,
                     Line at);
  /// Runs a score function in `region` of an attention op: block arguments f32, i32, i32, i32 of
  /// rank 0.
  void recordScore(mlir::Region &region, const ScoreFunction &score, Line at);

  /// Whether the training program is being recorded.
  bool isTraining() const { return recordsTraining; }
  /// What the next random numbers of the training program are keyed by: single i32 numbers, and
  /// the number of the use.
  struct RandomKey {
    mlir::Value sequence;
    int64_t use;
    mlir::Value seedLow, seedHigh;
  };
  RandomKey randomKey(Line at);

  //===- Declarations ----------------------------------------------------------===//

  int64_t hyper(const char *name, int64_t value, const char *about, int64_t least, Line at);
  double hyper(const char *name, double value, const char *about, Line at);
  int hyper(const char *name, llvm::ArrayRef<std::string> allowed, const char *about, Line at);

  Sched sched(SchedNode node);
  /// The number that a schedule is at every step, if it is made of numbers alone.
  std::optional<double> numberOf(const Sched &schedule) const;
  /// Declares a `nano.scalar`.
  void declareScalar(const std::string &symbol, const Sched &value, DType type, const char *what,
                     Line at);
  Tensor scalar(const char *name, const Sched &value, DType type, Line at);
  /// What a model file's equations compute, and what frees them.
  struct Equations {
    std::shared_ptr<const void> context;
    void (*call)(const void *, Update &) = nullptr;
  };
  Optimizer optimizer(const char *name, const OptimizerOptions &how, Equations equations, Line at);
  Tensor updateState(const Update &update, const char *name, DType type, const Shape *shape,
                     const Init &start, Line at);
  void setUpdate(const Tensor &old, const Operand &value);
  Tensor stateOf(const At &parameter, llvm::StringRef name);
  /// The schedule as a single f32, a scalar of the model that the compiler names.
  Tensor scheduled(const Sched &schedule, Line at);
  Tensor param(const char *name, const Shape &shape, DType type, const Init &init,
               const Optimizer &optimizer, Line at);
  Tensor frozen(const char *name, const Shape &shape, DType type, const Init &init, Line at);
  Tensor table(const char *name, const Shape &shape, DType type, const Init &init, Line at);
  Tensor state(const char *name, const Shape &shape, DType type, const Init &init, OverRanks over,
               Line at);
  void set(const At &state, const Operand &value);
  void recordEvent(const Sched *when, const void *context, void (*call)(const void *), Line at);
  Init copyOf(const At &source, bool transposed);
  /// An initial value of these numbers.
  Init numbers(std::vector<double> values);
  /// One of parts of so many elements each.
  Init blocks(std::vector<Init> parts);
  /// The path of a file that the model names.
  std::string pathOf(const char *path) const;
  void fp8Products(const At &weight, const Fp8 &how);
  Fp8 fp8Hyper(Line at);
  void training(const Training &how, Line at);
  void beginRecompute(Line at);
  void endRecompute();
  void microBatch(const char *name, int64_t row, Line at);
  void beginStage(const std::string &name, const Stage &how, Line at);
  void endStage(Line at);
  void documents(const Documents &how, Line at);
  Tensor column(const char *name, const ColumnType &type, Place place, Line at);

  /// Parts without a name or rows have those that the parameter has.
  void imported(const At &parameter, std::vector<plan::ForeignPart> parts, const char *what);
  void unusedInCheckpoints(const char *tensors, Line at);
  void importPrefix(const char *prefix, Line at);
  void config(const char *name, const ConfigValue &value, const ConfigRule &rule, Line at);
  /// Notes a report of the training program, and records it where it was asked for.
  void report(const std::string &name, const At &x, Report kind);

  Kernel kernel(const char *name, const KernelCode &code, Line at);
  /// The text of a file that the model names.
  const char *textOfFile(const char *path, Line at);
  /// The results of a kernel of the model's own.
  Tensors call(const Kernel &kernel, const Tensors &inputs, Line at);

  void replace(const char *function, const Kernel &by, const Replacement &how, Line at);
  /// The result of a kernel that takes the place of `function` on these inputs, where one does.
  /// `number`: what the function is given beside tensors; of another number it is checked again.
  /// `ours` is the function itself, on any inputs of such types; it runs with nothing replaced.
  std::optional<Tensor> replacement(const char *function, const Tensors &inputs, double number,
                                    Line at, const std::function<Tensor(const Tensors &)> &ours);
  /// The model that measures what must hold of kernels, as reports.
  TracedModel recordChecks();

  void recordLoss(bool validation, int64_t tokens, Loss loss, const void *context,
                  Tensor (*call)(const void *, Tensor, Tensor), Line at);
  void recordLogits(int64_t tokens, const void *context, Tensor (*call)(const void *, Tensor),
                    Line at);

private:
  /// Throws when the model has more ops and parameters than it may.
  void countOp(Line at);

  struct Declared {
    std::string symbol;
    mlir::RankedTensorType type;
    mlir::Value loaded;             ///< in the program `loadedIn`
    bool isUnset = false;           ///< a state without initial value
    std::optional<Line> setAt = {}; ///< in the program being recorded
    bool isState = false;           ///< a parameter, state or table; the others are scalars
    uint32_t loadedIn = 0;
    mlir::Operation *op = nullptr; ///< of a state
  };
  /// Declares a nano.state and returns its handle.
  Tensor declareState(const char *name, mlir::RankedTensorType type, graph::Role role,
                      graph::InitAttr init, llvm::StringRef optimizer, Line at);
  /// The type of what `what` declares: f32 or bf16 or, `orIntegers`, i32.
  mlir::RankedTensorType storedType(const Shape &shape, DType type, bool orIntegers,
                                    const std::string &what, Line at);
  /// `init` for a tensor of `type`, after checking that it can start so.
  graph::InitAttr initOf(const Init &init, mlir::RankedTensorType type, const std::string &what,
                         Line at);
  /// The parts of an initial value by blocks.
  graph::InitAttr blocksOf(const Init &init, mlir::RankedTensorType type, const std::string &what,
                           Line at);
  /// `init` as `nanoc params` shows it.
  std::string initText(const Init &init) const;
  struct OptimizerRecord {
    std::string name, kind, lrSymbol;
    int64_t every = 1;
    Cut cut = Cut::any;
    Equations equations = {};
    Line at = {};
    std::vector<graph::OptimizerOp> updates = {}; ///< one for each form that its parameters have
  };
  /// What is known of a parameter's update while its equations are recorded.
  struct UpdateRecord {
    struct Value {
      std::string name; ///< of a state; empty: the parameter
      Tensor handle;    ///< its old value
      mlir::RankedTensorType type;
      double init = 0;
      mlir::Value next; ///< what it was set to
      Line at = {};
    };
    std::string parameter;
    Line at; ///< where the parameter is declared
    mlir::Block *body = nullptr;
    std::vector<Value> values; ///< the parameter, then the states
  };
  /// Records the update of a parameter and returns the name of the op that holds it.
  std::string recordUpdate(OptimizerRecord &group, const char *parameter,
                           mlir::RankedTensorType type, Line at);
  /// Checks what the steps between two of each optimizer are together.
  void checkPhases() const;
  /// Fails where the equations cannot be cut as the model asks.
  void checkCut(graph::OptimizerOp op, const OptimizerRecord &group, Line at) const;
  /// Finishes the op that the equations were recorded in.
  void endUpdate(graph::OptimizerOp op, OptimizerRecord &group, Line at);

  /// A column that a program takes behind tokens and targets.
  struct ColumnRecord {
    std::string name, type; ///< the type in the file: "f32", "bf16", "i32" or "u8"
    Place place;
  };

  HyperparameterRecord &declareHyper(const char *name, const char *about, Line at);
  /// What was said about a hyperparameter, by -D or by NANO_DEFAULTS, as text; empty when nothing
  /// was.
  std::optional<std::string> override(HyperparameterRecord &record);
  std::string hyperContext(const HyperparameterRecord &record, const std::string &value,
                           Line at) const;
  /// Writes the policies of FP8 products to the parameters: the model's, those of -D fp8.<name>,
  /// and the scales of a file.
  void finishFp8();
  /// Checks the mapping to other programs' checkpoints and writes it to the module.
  void finishInterchange();
  /// Whether norms of the updates are asked for. Throws for what --reports names and is not there.
  bool finishReports() const;
  /// Checks what was said of micro-batches.
  std::optional<MicroBatchRecord> finishMicroBatch();
  /// Writes the steps of events, which are known when the training is.
  void finishEvents();
  /// A schedule's number where it depends on no step.
  double numberOf(uint32_t sched, Line at) const;
  /// A name of the module's, which must be new. Programs declare none, but what is `ofProgram`.
  void takeSymbol(const std::string &symbol, const char *what, Line at, bool ofProgram = false);
  OptimizerRecord &optimizerOf(const Optimizer &optimizer, const char *what, Line at);
  /// Runs the derivative of a kernel in the op's region.
  void recordDerivative(graph::CustomOp op, const KernelCode &code, Line at);
  /// Runs what makes a row of a kernel's results in the op's region.
  void recordRow(graph::CustomOp op, const Kernel &kernel, const KernelCode &code, Line at);
  void useSched(const Sched &sched, const char *what, Line at) const;
  mlir::Value emitSched(uint32_t id, mlir::OpBuilder &body, mlir::Block &block, mlir::Location loc,
                        llvm::DenseMap<uint32_t, mlir::Value> &done);

  /// Loads one of the scalars that random numbers are keyed by, and declares it before its first
  /// use.
  mlir::Value randomScalar(const char *symbol, Line at);
  static constexpr const char *randomSequenceSymbol = "random.sequence";
  static constexpr const char *randomSeedLowSymbol = "random.seed_low";
  static constexpr const char *randomSeedHighSymbol = "random.seed_high";

  graph::ProgramOp beginProgram(const char *role, int64_t inputs, int64_t tokens, Line at);
  void endProgram(graph::ProgramOp function, mlir::Value result, Line at);

  /// Marks the training program's ops inside of `recompute`.
  struct RecomputeMark : mlir::OpBuilder::Listener {
    void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override;
    int depth = 0;
    int64_t region = 0; ///< the number of the present one, or the last
  };

  mlir::OwningOpRef<mlir::ModuleOp> module;
  RecomputeMark recomputeMark;
  mlir::OpBuilder builder;
  TraceInput input;

  uint32_t model;                   ///< what handles of declarations carry
  uint32_t program = 0;             ///< what handles of the present program carry; 0: none
  uint32_t outerProgram = 0;        ///< while a region of an op is recorded: the program around it
  const char *insideRule = nullptr; ///< what may be used in that region
  bool recordsTraining = false;
  int64_t randomUses = 0; ///< in the training program
  int64_t opCount = 0;    ///< of all programs, and parameters
  std::vector<mlir::Value> values;
  std::vector<Declared> declared;
  std::vector<std::vector<double>> numberSets; ///< of initial values
  std::vector<std::vector<Init>> blockSets;    ///< of initial values
  std::vector<SchedNode> scheds{SchedNode{}};
  std::map<SchedNode, uint32_t> schedIds; ///< equal schedules are one
  int unnamedSchedules = 0;
  llvm::DenseMap<uint32_t, Tensor> implicit; ///< scalars that the compiler has named, by schedule
  std::vector<OptimizerRecord> optimizers;
  UpdateRecord *update = nullptr; ///< while a parameter's update is recorded
  std::vector<HyperparameterRecord> hyperparameters;
  std::vector<ParameterRecord> parameters;
  llvm::StringMap<Line> symbols;
  std::vector<bool> overrideUsed, defaultUsed;

  struct KernelRecord {
    std::string name;
    KernelCode code;
    std::optional<std::string> cpu, cuda; ///< its texts
  };
  std::vector<KernelRecord> kernels;
  /// Whether the kernel has a text for what is compiled for.
  bool hasText(const KernelRecord &kernel) const {
    const Target *target = findTarget(input.kernels.target);
    return target && (target->hasNativeCode ? kernel.cpu : kernel.cuda).has_value();
  }
  struct ReplacementRecord {
    std::string function;
    Kernel by;
    Replacement how;
    Line at;
    bool applies = false; ///< somewhere
  };
  std::vector<ReplacementRecord> replacements;
  bool replacesNothing = false; ///< while a function that a kernel replaces runs itself
  /// What must hold of a kernel at inputs of these types.
  struct CheckRecord {
    KernelCheck check;
    Kernel of;
    Line at{};                                  ///< its first use
    std::vector<mlir::RankedTensorType> inputs; ///< where checks run it
    std::string function;                       ///< that it replaces
    double number = 0;                          ///< given to it
    std::function<Tensor(const Tensors &)> ours;
  };
  std::vector<CheckRecord> checks;
  std::vector<std::string> remarks, unchecked; ///< as those of TracedModel
  /// Adds a check once, and returns its name; nothing, with a remark, where its inputs are too
  /// large to run it.
  std::optional<std::string> addCheck(CheckRecord record, const Tensors &inputs, Line at);
  /// The number that a check is of, in the training program.
  Tensor measure(const CheckRecord &record);
  Tensor measureDerivative(const CheckRecord &record, const Tensors &inputs);
  std::deque<std::string> texts; ///< of files

  struct Fp8Record {
    Fp8 how;
    Line at;
  };
  llvm::StringMap<Fp8Record> fp8Records; ///< by parameter
  llvm::StringMap<Tensor> ofOptimizers;  ///< states that events name, by symbol
  plan::Interchange interchange;
  llvm::StringMap<Line> importedAt; ///< by parameter
  std::vector<ReportRecord> reports;
  llvm::StringMap<Line> reportLines; ///< by name
  bool isReporting = false;          ///< the program being recorded is one of a step
  struct EventRecord {
    graph::ProgramOp function;
    uint32_t when; ///< a schedule; 0: every step
    Line at;
  };
  std::vector<EventRecord> events;
  std::optional<MicroBatchRecord> microBatchRecord;
  Line microBatchAt{};
  std::optional<Training> how;
  Line howAt{};
  std::optional<Documents> cut;
  graph::ProgramOp openProgram;                 ///< the program being recorded
  std::vector<ColumnRecord> *columns = nullptr; ///< of the program being recorded; null: none

  /// A program of the model: the tokens of a sequence, 0 where there is none.
  struct ProgramRecord {
    int64_t tokens = 0;
    bool lossIsSum = false;
    Line at{};
    std::vector<ColumnRecord> columns;
  };
  /// A stage of the run, or what is recorded outside of stages.
  struct StageRecord {
    std::string name;
    Stage how;
    Line at{};
    ProgramRecord train, validate, generate;

    ProgramRecord &program(llvm::StringRef role) {
      return role == "train" ? train : role == "validate" ? validate : generate;
    }
  };
  /// Takes the role's program of the stage at hand, or of the run; throws when it is there.
  ProgramRecord &takeProgram(const char *role, Line at);
  /// The run as its stages, with the programs that are recorded for all in each; one without a name
  /// where the model has none. Throws where they do not make up a run.
  std::vector<StageRecord> runStages();
  mlir::DictionaryAttr trainingOf(const StageRecord &stage);
  /// What the training says of columns and documents.
  void addData(const StageRecord &stage, llvm::SmallVectorImpl<mlir::NamedAttribute> &training);

  StageRecord outside;
  std::vector<StageRecord> stages;
  bool inStage = false; ///< the last of them is being recorded
};

} // namespace nano::frontend
