// How the training loop uses a plan's programs: their inputs and results, phases and stages of the
// run, what is checked and reported.
#pragma once

#include "runtime/plan/Memory.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace nano::plan {

/// A parameter whose matrix products run in FP8: a row of the report. Its columns: for the
/// products' input, the weight and the gradient each the largest magnitude, the scale (0: one a
/// block), the share of elements beyond the format's largest number and the share rounded to zero;
/// then ‖y₈ − y‖/‖y‖ against the product in the compute type, of the forward product, the
/// gradient of the input and that of the weight. What there is not is 0.
struct ScaledWeight {
  std::string name;   ///< the parameter's
  std::string recipe; ///< "static", "current", "delayed", "block"
  /// Whether input, weight and gradient are converted: a product whose sizes no 8-bit product has
  /// stays in the compute type, and what only it reads is not. Of others the report has zeros.
  std::array<bool, 3> converted = {true, true, true};
  template <class S = ScaledWeight> static constexpr auto fields() {
    return std::tuple(field("name", &S::name), field("recipe", &S::recipe),
                      optionalList("converted", &S::converted));
  }
  bool operator==(const ScaledWeight &) const = default;
};
inline constexpr int64_t reportColumns = 15;

/// What a program checks of indices that the compiler could not prove to lie in their tables.
struct IndexChecks {
  struct Check {
    std::string kind;  ///< whose indices they are: "gather", "scatter_add", "cross_entropy"
    int64_t bound = 0; ///< those in [0, bound) are right
    Location location;
    template <class S = Check> static constexpr auto fields() {
      return std::tuple(field("kind", &S::kind), field("bound", &S::bound),
                        optional("at", &S::location));
    }
    bool operator==(const Check &) const = default;
  };
  std::vector<Check> list;
  /// i32 [list], written by the program where there are checks: of each one of its indices, one out
  /// of range where any is. Whatever they are, the program touches nothing beside its tables.
  uint32_t buffer = 0;
  template <class S = IndexChecks> static constexpr auto fields() {
    return std::tuple(field("buffer", &S::buffer), field("list", &S::list));
  }
  bool operator==(const IndexChecks &) const = default;
};

/// A column of the data beside the tokens, an input of programs: element t of the buffer goes with
/// target t of the sequence, or with its input t. Zero in padding.
struct Column {
  enum class Type : uint8_t { F32, BF16, I32, U8 };
  std::string name;      ///< `documentColumn`: made by the reader; else a column of the files
  Type type = Type::F32; ///< in the files; U8 is I32 in the buffer
  bool ofTarget = true;
  uint32_t buffer = 0;
  template <class S = Column> static constexpr auto fields() {
    return std::tuple(field("name", &S::name), field("type", &S::type),
                      field("ofTarget", &S::ofTarget), field("buffer", &S::buffer));
  }
  bool operator==(const Column &) const = default;
};
/// The name that files and messages use: "f32", "bf16", "i32", "u8".
const char *nameOf(Column::Type type);
/// Element type of a column's buffer.
DType bufferTypeOf(Column::Type type);
/// The column of type U8 that is in no file: 1 for a document's tokens, 0 for padding.
inline constexpr const char *documentColumn = "in_document";

/// How training batches are cut; docs/data.md has the rules.
struct Documents {
  enum class Rule : uint8_t { Contiguous, Aligned, Cut, Packed };
  Rule rule = Rule::Contiguous;
  std::string longest;  ///< Cut, Packed: the scalar that says a document's most tokens; empty: none
  bool shuffle = false; ///< Cut, Packed
  template <class S = Documents> static constexpr auto fields() {
    return std::tuple(field("rule", &S::rule), field("longest", &S::longest),
                      field("shuffle", &S::shuffle));
  }
  bool operator==(const Documents &) const = default;
};
/// The name that files and messages use: "contiguous", "aligned", "cut", "packed".
const char *nameOf(Documents::Rule rule);

/// What programs found of a tensor, for the log; docs/reports.md.
struct Report {
  enum class Kind : uint8_t { Mean, Norm, Max, Histogram };
  std::string name;
  Kind kind = Kind::Mean;
  /// f32, written by the programs. Mean: [1], the mean; Norm: [1], the sum of squares; Max: [1],
  /// the largest magnitude; Histogram: [edges + 5], the elements below edges[0], from each edge
  /// below the next, and not below the last; then the smallest, the largest, the sum and the sum of
  /// squares.
  uint32_t buffer = 0;
  uint64_t offset = 0;       ///< bytes from the buffer's start
  std::vector<double> edges; ///< Histogram: rising
  bool eachStep = false;     ///< of a step, the same on all ranks; else of each micro-batch
  /// eachStep: the step's phases in which it is written, rising; empty: all.
  std::vector<int64_t> phases;
  template <class S = Report> static constexpr auto fields() {
    return std::tuple(field("name", &S::name), field("kind", &S::kind), field("buffer", &S::buffer),
                      optional("offset", &S::offset), optional("edges", &S::edges),
                      optional("eachStep", &S::eachStep), optional("phases", &S::phases));
  }
  bool operator==(const Report &) const = default;
};

/// The name that files and messages use: "mean", "norm", "max", "histogram".
const char *nameOf(Report::Kind kind);
/// The numbers in its buffer.
inline size_t numbersOf(const Report &report) {
  return report.kind == Report::Kind::Histogram ? report.edges.size() + 5 : 1;
}

/// The programs of one optimizer step, by name. A rank runs A = globalBatch / (seqLen · ranks)
/// micro-batches: `first`, then A − 2 times `next`, then `last`, which holds the gradients'
/// collectives; where A = 1 only `last`. Then `update`.
struct StepPrograms {
  std::string first; ///< empty where A = 1
  std::string next;  ///< empty where A < 3
  std::string last;
  std::string update; ///< empty where `last` ends with it
  template <class S = StepPrograms> static constexpr auto fields() {
    return std::tuple(field("first", &S::first), field("next", &S::next), field("last", &S::last),
                      field("update", &S::update));
  }
  bool operator==(const StepPrograms &) const = default;
};

/// A program that runs after the update of one step, or of every one.
struct Event {
  std::string program;
  int64_t step = -1; ///< 0-based; −1: every step
  template <class S = Event> static constexpr auto fields() {
    return std::tuple(field("program", &S::program), field("step", &S::step));
  }
  bool operator==(const Event &) const = default;
};

/// How the training loop uses the programs, in one stage of the run: steps with the same sizes. All
/// programs take inputs from `tokens` and `targets`.
struct Training {
  std::string stage; ///< its name; empty where the run has one stage only
  int64_t until = 0; ///< it ends before this step, counted from 0; the last one is followed beyond
                     ///< it; 0 where the run has one stage only
  std::vector<StepPrograms> phases;  ///< step s of the run is done by phases[s % phases.size()]
  std::vector<Event> events;         ///< after a step's update, in this order
  std::string validate;              ///< program name
  int64_t seqLen = 0, valSeqLen = 0; ///< tokens in a micro-batch of one rank
  int64_t globalBatch = 0;           ///< tokens in an optimizer step over all ranks
  int64_t numIterations = 0;
  int64_t vocabSize = 0; ///< tokens ≥ this are bad input
  int64_t eosToken = -1;
  uint32_t tokensBuffer = 0, targetsBuffer = 0;       ///< i32 [seqLen], inputs of a step's programs
  uint32_t valTokensBuffer = 0, valTargetsBuffer = 0; ///< i32 [valSeqLen], inputs of validate
  std::vector<Column> columns, valColumns; ///< [seqLen] and [valSeqLen], further inputs of both
  Documents documents;
  uint32_t lossBuffer = 0;    ///< f32 [1], written by those: the loss of this micro-batch
  uint32_t valLossBuffer = 0; ///< f32 [1], written by validate
  bool trainLossIsSum = true; ///< train loss is a sum over tokens; else the mean
  bool valLossIsSum = false;
  /// Sampling: `generate` reads i32 [genSeqLen] from genTokensBuffer and writes f32 [genSeqLen,
  /// logitsColumns]. Row t of the logits predicts the token after position t; columns ≥ vocabSize
  /// are padding. Empty name: no such program.
  std::string generate;
  int64_t genSeqLen = 0, logitsColumns = 0;
  uint32_t genTokensBuffer = 0, logitsBuffer = 0;
  /// Sampling token by token: after a run of `generate`, and after its own of all positions since,
  /// `decode` reads a token and its position, below genSeqLen, both i32 [1], and writes the logits
  /// after it, f32 [1, logitsColumns]. Between them no other program runs. Empty name: no such
  /// program.
  std::string decode;
  uint32_t decodeTokenBuffer = 0, decodePositionBuffer = 0, decodeLogitsBuffer = 0;
  IndexChecks checks, valChecks, genChecks; ///< of a step's micro-batches, validate, generate
  IndexChecks decodeChecks;
  std::vector<Report> reports; ///< of a step's programs
  std::string logScalar;       ///< the scalar that the log and the progress line show as "lr"
  /// How well FP8 scales fit: `measure` reads what a step's first program reads, before it, leaves
  /// all states as they are, and writes f32 [scaledWeights, reportColumns] to reportBuffer. Empty
  /// name: no such program.
  std::string measure;
  uint32_t reportBuffer = 0;
  std::vector<ScaledWeight> scaledWeights;
  template <class S = Training> static constexpr auto fields() {
    return std::tuple(
        field("phases", &S::phases), field("validate", &S::validate), field("seqLen", &S::seqLen),
        field("valSeqLen", &S::valSeqLen), field("globalBatch", &S::globalBatch),
        field("numIterations", &S::numIterations), field("vocabSize", &S::vocabSize),
        field("eosToken", &S::eosToken), field("tokensBuffer", &S::tokensBuffer),
        field("targetsBuffer", &S::targetsBuffer), field("valTokensBuffer", &S::valTokensBuffer),
        field("valTargetsBuffer", &S::valTargetsBuffer), field("lossBuffer", &S::lossBuffer),
        field("valLossBuffer", &S::valLossBuffer), field("trainLossIsSum", &S::trainLossIsSum),
        field("valLossIsSum", &S::valLossIsSum), field("generate", &S::generate),
        field("genSeqLen", &S::genSeqLen), field("logitsColumns", &S::logitsColumns),
        field("genTokensBuffer", &S::genTokensBuffer), field("logitsBuffer", &S::logitsBuffer),
        field("logScalar", &S::logScalar),
        together(field("stage", &S::stage), field("until", &S::until)),
        together(field("decode", &S::decode), field("decodeTokenBuffer", &S::decodeTokenBuffer),
                 field("decodePositionBuffer", &S::decodePositionBuffer),
                 field("decodeLogitsBuffer", &S::decodeLogitsBuffer)),
        optional("decodeChecks", &S::decodeChecks), optional("events", &S::events),
        optional("checks", &S::checks), optional("valChecks", &S::valChecks),
        optional("genChecks", &S::genChecks), optional("columns", &S::columns),
        optional("valColumns", &S::valColumns), optional("documents", &S::documents),
        optional("reports", &S::reports),
        together(field("measure", &S::measure), field("reportBuffer", &S::reportBuffer),
                 field("scaledWeights", &S::scaledWeights)));
  }
  bool operator==(const Training &) const = default;
};

template <>
inline constexpr Names<Column::Type> namesOf<Column::Type> = {"type of a column", Column::Type::U8};
template <>
inline constexpr Names<Documents::Rule> namesOf<Documents::Rule> = {"rule for documents",
                                                                    Documents::Rule::Packed};
template <>
inline constexpr Names<Report::Kind> namesOf<Report::Kind> = {"kind of a report",
                                                              Report::Kind::Histogram};

} // namespace nano::plan
