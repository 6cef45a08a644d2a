// Every field of a plan's structs as a plan file has it, once: its key, its member, and when it is
// left out. Reader and writer follow from these lists. Internal to runtime/plan;
// docs/plan-format.md describes the keys, and a test compares the two.
#pragma once

#include "runtime/plan/Plan.h"

#include <tuple>
#include <type_traits>
#include <utility>

namespace nano::plan {

/// A key of S's object: the value of a member, or a list of the values of several.
template <typename S, typename... T> struct Field {
  const char *key;
  bool isOptional; ///< left out where all members are as by default
  bool isList;
  std::tuple<T S::*...> members;
};
template <typename S, typename... T> constexpr auto field(const char *key, T S::*...members) {
  return Field<S, T...>{key, false, sizeof...(T) > 1, {members...}};
}
template <typename S, typename... T> constexpr auto optional(const char *key, T S::*...members) {
  return Field<S, T...>{key, true, sizeof...(T) > 1, {members...}};
}
/// A list even of one value.
template <typename S, typename... T> constexpr auto list(const char *key, T S::*...members) {
  return Field<S, T...>{key, false, true, {members...}};
}
template <typename S, typename... T>
constexpr auto optionalList(const char *key, T S::*...members) {
  return Field<S, T...>{key, true, true, {members...}};
}

/// Fields that are there together or not at all: where the first one is not as by default.
template <typename... Fields> struct Together {
  std::tuple<Fields...> fields;
};
template <typename... Fields> constexpr auto together(Fields... fields) {
  return Together<Fields...>{{fields...}};
}

/// A field that is there where a condition holds of the fields before it.
template <typename S, typename T> struct Where {
  bool (*condition)(const S &);
  Field<S, T> field;
};
template <typename S, typename T>
constexpr auto where(bool (*condition)(const S &), Field<S, T> field) {
  return Where<S, T>{condition, field};
}

/// The fields of a struct that is there or not, by its first key, among those of its owner.
template <typename S, typename T> struct Inline {
  std::optional<T> S::*member;
};

/// Operands and their numbers of elements, in two lists.
template <typename S, typename T> struct Counted {
  const char *refs, *counts;
  std::vector<T> S::*items;
};

/// Where S is one of several structs: the fields of that one, which its first key names.
template <typename S, typename... T> struct OneOf {
  std::variant<T...> S::*member;
};

/// The fields of S, a tuple of the above.
template <typename S> inline constexpr auto fieldsOf = nullptr;
template <typename S>
concept HasFields = !std::is_same_v<std::remove_const_t<decltype(fieldsOf<S>)>, std::nullptr_t>;

/// The members of an S that is stored as a list of their values. A vector takes the list's rest.
template <typename S> inline constexpr auto rowOf = nullptr;
template <typename S>
concept HasRow = !std::is_same_v<std::remove_const_t<decltype(rowOf<S>)>, std::nullptr_t>;

/// An enumeration whose values, up to `last`, files name by `nameOf`.
template <typename E> struct Names {
  const char *what; ///< "element type"
  E last;
};
template <typename E> inline constexpr auto namesOf = nullptr;
template <> inline constexpr Names<DType> namesOf<DType> = {"element type", DType::U16};
template <> inline constexpr Names<Ranks> namesOf<Ranks> = {"ranks", Ranks::Peers};
template <>
inline constexpr Names<State::Role> namesOf<State::Role> = {"role", State::Role::Constant};
template <>
inline constexpr Names<Column::Type> namesOf<Column::Type> = {"type of a column", Column::Type::U8};
template <>
inline constexpr Names<Documents::Rule> namesOf<Documents::Rule> = {"rule for documents",
                                                                    Documents::Rule::Packed};
template <>
inline constexpr Names<Report::Kind> namesOf<Report::Kind> = {"kind of a report",
                                                              Report::Kind::Histogram};

//===- What lies in memory -------------------------------------------------------------------===//

template <>
inline constexpr auto fieldsOf<Buffer> =
    std::tuple(field("name", &Buffer::name), field("offset", &Buffer::offset),
               field("bytes", &Buffer::bytes), field("type", &Buffer::type),
               field("shape", &Buffer::shape), optional("indices", &Buffer::indices),
               optional("at", &Buffer::location));

template <>
inline constexpr auto fieldsOf<Sharding::Piece> =
    std::tuple(field("name", &Sharding::Piece::name), field("shape", &Sharding::Piece::shape),
               field("offset", &Sharding::Piece::offset));
template <>
inline constexpr auto fieldsOf<Sharding> =
    std::tuple(field("ranks", &Sharding::ranks), field("parts", &Sharding::parts),
               field("chunk", &Sharding::chunk), field("pieces", &Sharding::pieces));

template <>
inline constexpr auto fieldsOf<State> =
    std::tuple(field("name", &State::name), field("role", &State::role),
               field("type", &State::type), field("shape", &State::shape),
               field("buffer", &State::buffer), field("init", &State::init),
               optional("sharding", &State::sharding), optional("optimizer", &State::optimizer),
               optional("learningRate", &State::learningRate), optional("at", &State::location));

template <>
inline constexpr auto fieldsOf<Scalar> =
    std::tuple(field("name", &Scalar::name), field("type", &Scalar::type),
               field("offset", &Scalar::offset), field("value", &Scalar::value));

//===- Kernels -------------------------------------------------------------------------------===//

template <>
inline constexpr auto rowOf<TensorMap> =
    std::tuple(&TensorMap::argument, &TensorMap::type, &TensorMap::columns, &TensorMap::rows,
               &TensorMap::rowBytes, &TensorMap::boxColumns, &TensorMap::boxRows,
               &TensorMap::swizzleBytes);
template <>
inline constexpr auto rowOf<Kernel::Reach> =
    std::tuple(&Kernel::Reach::iterations, &Kernel::Reach::bytes);
template <>
inline constexpr auto rowOf<Kernel::Indices> =
    std::tuple(&Kernel::Indices::operand, &Kernel::Indices::group);
template <>
inline constexpr auto rowOf<IndexGroup> = std::tuple(&IndexGroup::low, &IndexGroup::high);

template <>
inline constexpr auto fieldsOf<Kernel> =
    std::tuple(field("name", &Kernel::name), field("summary", &Kernel::summary),
               field("scratch", &Kernel::scratchBytes), optional("flops", &Kernel::flops),
               optional("flopsPerKey", &Kernel::flopsPerKey), list("at", &Kernel::locations),
               together(field("source", &Kernel::source),
                        field("block", &Kernel::threads, &Kernel::iterationsPerBlock,
                              &Kernel::sharedBytes, &Kernel::maxSegments)),
               optional("cluster", &Kernel::clusterBlocks), optional("maps", &Kernel::tensorMaps),
               field("reaches", &Kernel::reaches), optional("indices", &Kernel::indices));

template <>
inline constexpr auto fieldsOf<Source> =
    std::tuple(field("name", &Source::name), field("text", &Source::text));

//===- Commands ------------------------------------------------------------------------------===//

template <>
inline constexpr auto rowOf<Launch::Segment> =
    std::tuple(&Launch::Segment::iterations, &Launch::Segment::grain, &Launch::Segment::args);
template <>
inline constexpr auto fieldsOf<Launch> =
    std::tuple(field("launch", &Launch::kernel), field("segments", &Launch::segments));

template <>
inline constexpr auto fieldsOf<MatmulScales> =
    std::tuple(field("scaleA", &MatmulScales::a), field("scaleB", &MatmulScales::b),
               optional("scaleBlocks", &MatmulScales::block, &MatmulScales::rowsA,
                        &MatmulScales::rowsB, &MatmulScales::stridesA, &MatmulScales::stridesB));
template <>
inline constexpr auto fieldsOf<Matmul> = std::tuple(
    field("matmul", &Matmul::m, &Matmul::n, &Matmul::k, &Matmul::batch),
    field("types", &Matmul::aType, &Matmul::bType, &Matmul::cType),
    optional("transpose", &Matmul::transposeA, &Matmul::transposeB),
    field("ld", &Matmul::lda, &Matmul::ldb, &Matmul::ldc, &Matmul::ldd),
    optional("stride", &Matmul::strideA, &Matmul::strideB, &Matmul::strideC, &Matmul::strideD),
    optional("scale", &Matmul::alpha, &Matmul::beta), field("a", &Matmul::a),
    field("b", &Matmul::b), field("c", &Matmul::c),
    where(
        +[](const Matmul &matmul) { return matmul.beta != 0; }, field("d", &Matmul::d)),
    Inline<Matmul, MatmulScales>{&Matmul::scales});

template <> inline constexpr auto rowOf<AllReduce::Part> = std::tuple(&AllReduce::Part::buffer);
template <>
inline constexpr auto fieldsOf<AllReduce> =
    std::tuple(field("allReduce", &AllReduce::type), optional("ranks", &AllReduce::ranks),
               optional("maximum", &AllReduce::maximum),
               Counted<AllReduce, AllReduce::Part>{"refs", "counts", &AllReduce::parts});

template <> inline constexpr auto rowOf<Move> = std::tuple(&Move::from, &Move::to);
constexpr auto exchangeFields(const char *kind) {
  return std::tuple(field(kind, &Exchange::type), optional("ranks", &Exchange::ranks),
                    Counted<Exchange, Move>{"refs", "counts", &Exchange::moves});
}
template <> inline constexpr auto fieldsOf<ReduceScatter> = exchangeFields("reduceScatter");
template <> inline constexpr auto fieldsOf<AllGather> = exchangeFields("allGather");
template <> inline constexpr auto fieldsOf<Shard> = exchangeFields("shard");

template <>
inline constexpr auto fieldsOf<Fill> =
    std::tuple(field("fill", &Fill::type), list("refs", &Fill::to), list("counts", &Fill::count));
template <>
inline constexpr auto fieldsOf<Copy> = std::tuple(
    field("copy", &Copy::type), list("refs", &Copy::from, &Copy::to), list("counts", &Copy::count));

template <>
inline constexpr auto fieldsOf<RecordEvent> = std::tuple(field("record", &RecordEvent::event));
template <>
inline constexpr auto fieldsOf<WaitEvent> = std::tuple(field("wait", &WaitEvent::event));

template <>
inline constexpr auto fieldsOf<Command> =
    std::tuple(OneOf{&Command::action}, optional("stream", &Command::stream),
               optional("label", &Command::label), optional("at", &Command::location),
               optional("candidates", &Command::candidates));

template <>
inline constexpr auto fieldsOf<Program> =
    std::tuple(field("name", &Program::name), field("streams", &Program::streams),
               field("events", &Program::events), field("commands", &Program::commands));

//===- Training ------------------------------------------------------------------------------===//

template <>
inline constexpr auto fieldsOf<StepPrograms> =
    std::tuple(field("first", &StepPrograms::first), field("next", &StepPrograms::next),
               field("last", &StepPrograms::last), field("update", &StepPrograms::update));

template <>
inline constexpr auto fieldsOf<Event> =
    std::tuple(field("program", &Event::program), field("step", &Event::step));

template <>
inline constexpr auto fieldsOf<IndexChecks::Check> =
    std::tuple(field("kind", &IndexChecks::Check::kind), field("bound", &IndexChecks::Check::bound),
               optional("at", &IndexChecks::Check::location));
template <>
inline constexpr auto fieldsOf<IndexChecks> =
    std::tuple(field("buffer", &IndexChecks::buffer), field("list", &IndexChecks::list));

template <>
inline constexpr auto fieldsOf<Column> =
    std::tuple(field("name", &Column::name), field("type", &Column::type),
               field("ofTarget", &Column::ofTarget), field("buffer", &Column::buffer));

template <>
inline constexpr auto fieldsOf<Documents> =
    std::tuple(field("rule", &Documents::rule), field("longest", &Documents::longest),
               field("shuffle", &Documents::shuffle));

template <>
inline constexpr auto fieldsOf<Report> =
    std::tuple(field("name", &Report::name), field("kind", &Report::kind),
               field("buffer", &Report::buffer), optional("offset", &Report::offset),
               optional("edges", &Report::edges), optional("eachStep", &Report::eachStep),
               optional("phases", &Report::phases));

template <>
inline constexpr auto fieldsOf<ScaledWeight> =
    std::tuple(field("name", &ScaledWeight::name), field("recipe", &ScaledWeight::recipe),
               optionalList("converted", &ScaledWeight::converted));

template <>
inline constexpr auto fieldsOf<Training> = std::tuple(
    field("phases", &Training::phases), field("validate", &Training::validate),
    field("seqLen", &Training::seqLen), field("valSeqLen", &Training::valSeqLen),
    field("globalBatch", &Training::globalBatch), field("numIterations", &Training::numIterations),
    field("vocabSize", &Training::vocabSize), field("eosToken", &Training::eosToken),
    field("tokensBuffer", &Training::tokensBuffer),
    field("targetsBuffer", &Training::targetsBuffer),
    field("valTokensBuffer", &Training::valTokensBuffer),
    field("valTargetsBuffer", &Training::valTargetsBuffer),
    field("lossBuffer", &Training::lossBuffer), field("valLossBuffer", &Training::valLossBuffer),
    field("trainLossIsSum", &Training::trainLossIsSum),
    field("valLossIsSum", &Training::valLossIsSum), field("generate", &Training::generate),
    field("genSeqLen", &Training::genSeqLen), field("logitsColumns", &Training::logitsColumns),
    field("genTokensBuffer", &Training::genTokensBuffer),
    field("logitsBuffer", &Training::logitsBuffer), field("logScalar", &Training::logScalar),
    together(field("stage", &Training::stage), field("until", &Training::until)),
    together(field("decode", &Training::decode),
             field("decodeTokenBuffer", &Training::decodeTokenBuffer),
             field("decodePositionBuffer", &Training::decodePositionBuffer),
             field("decodeLogitsBuffer", &Training::decodeLogitsBuffer)),
    optional("decodeChecks", &Training::decodeChecks), optional("events", &Training::events),
    optional("checks", &Training::checks), optional("valChecks", &Training::valChecks),
    optional("genChecks", &Training::genChecks), optional("columns", &Training::columns),
    optional("valColumns", &Training::valColumns), optional("documents", &Training::documents),
    optional("reports", &Training::reports),
    together(field("measure", &Training::measure), field("reportBuffer", &Training::reportBuffer),
             field("scaledWeights", &Training::scaledWeights)));

//===- The plan ------------------------------------------------------------------------------===//

template <>
inline constexpr auto fieldsOf<Hyperparameter> =
    std::tuple(field("name", &Hyperparameter::name), field("value", &Hyperparameter::value),
               field("overridden", &Hyperparameter::overridden));

/// What all variants share: before the list of them, and behind it.
inline constexpr auto firstCommonFields =
    std::tuple(field("model", &Plan::model), field("target", &Plan::target));
inline constexpr auto commonFields = std::tuple(
    field("cpuFeatures", &Plan::cpuFeatures), field("hyperparameters", &Plan::hyperparameters),
    optional("interchange", &Plan::interchange), optional("indexGroups", &Plan::indexGroups),
    field("kernels", &Plan::kernels), optional("sources", &Plan::sources));
/// What a variant has to itself.
inline constexpr auto variantFields =
    std::tuple(field("group", &Plan::group), field("arenaBytes", &Plan::arenaBytes),
               field("buffers", &Plan::buffers), field("states", &Plan::states),
               field("scalarBuffer", &Plan::scalarBuffer), field("scalars", &Plan::scalars),
               field("programs", &Plan::programs), field("training", &Plan::training),
               optional("laterStages", &Plan::laterStages));

/// Calls `each` with every item of a tuple, in order.
template <typename Tuple, typename Fn> constexpr void forEach(const Tuple &tuple, Fn &&each) {
  std::apply([&](const auto &...items) { (each(items), ...); }, tuple);
}
/// The first key of a struct's fields.
template <typename S> constexpr const char *firstKeyOf() { return std::get<0>(fieldsOf<S>).key; }

} // namespace nano::plan
