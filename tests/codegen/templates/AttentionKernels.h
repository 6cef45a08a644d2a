// Kernels of the attention templates, as the compiler makes them, on the emulator: their text,
// their operands, and what they compute against doubles. Tolerances are of |actual − expected| / (1
// + |expected|). f32: 2e-5 for y and lse, 1e-4 for gradients (sums over all queries). bf16: lse
// 2e-5 (f32 sums of exact products); y 0.6 % (2⁻⁹ each for the weights and for the result);
// gradients 2.5 % (sums over some hundred queries of weights and gradients of scores that are
// rounded to 2⁻⁹ of themselves, with terms of up to about ten).
#pragma once

#include "ir/kernel/shapes/nano_attention_launch.h"
#include "tests/codegen/templates/AttentionReference.h"
#include "tests/codegen/templates/TemplateRunner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

namespace nano::test {

/// A choice of tiles as text and as launches.
struct Choice {
  std::string forward = {}, grads = {}; ///< types; empty: what the templates choose
  TemplateLaunch (*forwardLaunch)(const AttentionShape &shape) = nullptr;
  TemplateLaunch (*gradLaunch)(const AttentionShape &shape) = nullptr;
  /// Gradients in five products.
  bool inChain = false;
  /// The forward pass takes boxes of so many queries and keys by tensor maps; 0: it has none.
  int boxQueries = 0, boxKeys = 0;
};

template <class ForwardTiles, class GradTiles> struct OfTiles {
  using Forward = ForwardTiles;
  using Grads = GradTiles;
  using GradsByTickets = GradTiles;
};
template <class Forward, class Grads>
Choice choiceOf(const std::string &forward, const std::string &grads, int boxQueries = 0,
                int boxKeys = 0) {
  using Both = OfTiles<Forward, Grads>;
  return {.forward = forward,
          .grads = grads,
          .forwardLaunch = tiledForwardLaunch<Both>,
          .gradLaunch = tiledGradLaunch<Both>,
          .boxQueries = boxQueries,
          .boxKeys = boxKeys};
}
using FewColumns = HopperTiles<64, 2>;
const Choice hopperTiles = choiceOf<HopperRuns<128, 2, 2>, HopperTiles<64, 3, 1>>(
    "HopperRuns<128, 2, 2>", "HopperTiles<64, 3, 1>");
const Choice fewStages =
    choiceOf<HopperRuns<64, 2, 1>, FewColumns>("HopperRuns<64, 2, 1>", "HopperTiles<64, 2>");
const Choice bulkTiles = choiceOf<HopperRuns<64, 2, 2, 2, true>, FewColumns>(
    "HopperRuns<64, 2, 2, 2, true>", "HopperTiles<64, 2>", 128, 64);
const Choice threeGroups = choiceOf<HopperRuns<128, 3, 2, 3, true>, FewColumns>(
    "HopperRuns<128, 3, 2, 3, true>", "HopperTiles<64, 2>", 192, 128);
const Choice fourGroups = choiceOf<HopperRuns<64, 2, 2, 4, true>, FewColumns>(
    "HopperRuns<64, 2, 2, 4, true>", "HopperTiles<64, 2>", 256, 64);

const Choice chain = {.inChain = true};

struct Case {
  int tokens = 200, heads = 1, sharing = 1, size = 64; ///< sharing: heads of queries a head of keys
  bool isBf16 = true;
  bool hasScore = false;
  bool packed = false; ///< q, k, v and their gradients lie in one buffer [T, H + 2·Hk, Dh]
  bool spread = false; ///< elements of q, k and v, and of their gradients, are two apart
  Choice tiles = {};
  int multiprocessors = 3; ///< few, so that a block has many tiles
  int valueSize = 0;       ///< of heads of values; 0: as of keys
  bool hasMaps = false;    ///< the forward pass takes tensor maps
  bool hasTickets = false; ///< the gradients take tickets, and maps
  int row = 0;             ///< causal rows of so many tokens, whose gradients take five products
                           ///< and whose forward pass is of rows, too, with maps
  bool hasSums = false;    ///< sums of the gradients' columns come with them
  int forwardRow = 0;      ///< of the forward pass alone, as `row`
  int ofForward() const { return !hasMaps ? 0 : row > 0 ? row : forwardRow; }
  int ofValues() const { return valueSize > 0 ? valueSize : size; }
};

// A soft cap and a penalty on the distance.
inline const char *const scoreText = R"(
  static NANO_DEVICE float score(float s, int query, int key, int head) {
    return 5.0f * nano::tanh(s / 5.0f) + 0.01f * float(head + 1) * float(key - query);
  }
  static NANO_DEVICE float scoreGrad(float s, int query, int key, int head, float gradient) {
    const float t = nano::tanh(s / 5.0f);
    return gradient * (1.0f - t * t);
  }
)";

class AttentionKernels {
public:
  explicit AttentionKernels(const Case &c, std::string library = "#include \"nano_attention.h\"\n")
      : c(c),
        shape{c.tokens,     c.heads,    c.heads / c.sharing, c.size, c.ofValues(), c.isBf16,
              !c.spread,    c.hasScore, c.multiprocessors,   0,      c.hasMaps,    c.hasTickets,
              c.ofForward()},
        library(std::move(library)), runner(text(), {"forward", "backward"}) {}

  /// The forward kernel of one problem, whose operands are filled.
  void checkForward(const AttentionProblem &p, const AttentionResult &expected, uint64_t seed) {
    upload(p);
    runForward(seed);
    const double tolerance = c.isBf16 ? 6e-3 : 2e-5;
    EXPECT_LE(largestError(y.values(), expected.y), tolerance) << "y";
    EXPECT_LE(largestError(otherY.values(), expected.y), tolerance) << "the other y";
    EXPECT_LE(largestError(lse.values(), expected.lse), 2e-5) << "lse";
  }
  /// And the backward kernel.
  void check(const AttentionProblem &p, uint64_t seed) {
    const AttentionResult expected = attentionReference(p);
    checkForward(p, expected, seed);
    const double gradTolerance = c.isBf16 ? 2.5e-2 : 1e-4;
    lse = DeviceBuffer::ofFloats("lse", expected.lse);
    runBackward(seed + 1);
    EXPECT_LE(largestError(read(dq, 0), expected.dq), gradTolerance) << "dq";
    EXPECT_LE(largestError(read(dk, 1), expected.dk), gradTolerance) << "dk";
    EXPECT_LE(largestError(read(dv, 2), expected.dv), gradTolerance) << "dv";
    if (c.hasSums)
      for (int part = 0; part < 3; ++part)
        checkSums(part);
  }

  void upload(const AttentionProblem &p) {
    const Numbers *parts[3] = {&p.q, &p.k, &p.v};
    if (c.packed || c.spread) {
      // Void elements in between are not to be read.
      Numbers all(c.packed ? p.q.size() + p.k.size() + p.v.size() : 6 * p.q.size(),
                  std::numeric_limits<double>::quiet_NaN());
      for (int part = 0; part < 3; ++part)
        for (size_t i = 0; i < parts[part]->size(); ++i)
          all[position(i, part)] = (*parts[part])[i];
      q = ofNumbers("qkv", all);
    } else {
      q = ofNumbers("q", p.q);
      k = ofNumbers("k", p.k);
      v = ofNumbers("v", p.v);
    }
    dy = ofNumbers("dy", p.dy);
    delta = DeviceBuffer::ofFloats("delta", p.delta);
    first = DeviceBuffer::ofInts("first", p.first);
    last = DeviceBuffer::ofInts("last", p.last);
    int bytes = c.isBf16 ? 2 : 4;
    y = DeviceBuffer("y", bytes, p.dy.size());
    otherY = DeviceBuffer("other y", bytes, p.dy.size());
    lse = DeviceBuffer("lse", 4, p.delta.size());
    bool together = c.packed || c.spread;
    dq = DeviceBuffer("dq", bytes,
                      c.packed   ? p.q.size() + p.k.size() + p.v.size()
                      : c.spread ? 6 * p.q.size()
                                 : p.q.size());
    dk = DeviceBuffer("dk", bytes, together ? 0 : p.k.size());
    dv = DeviceBuffer("dv", bytes, together ? 0 : p.v.size());
  }

  void runForward(uint64_t seed) { EXPECT_EQ(forward(seed), ""); }
  /// The first fault, or nothing.
  std::string forward(uint64_t seed) {
    const TemplateLaunch chosen =
        c.tiles.forwardLaunch ? c.tiles.forwardLaunch(shape) : attentionForwardLaunch(shape);
    Shape launch = {chosen.threads, chosen.iterations, chosen.sharedBytes};
    std::vector<Argument> arguments = operands();
    arguments.insert(arguments.end(), {{&y, true}, {&otherY, true}, {&lse, true}});
    DeviceBuffer tickets = DeviceBuffer::ofInts("tickets", {0});
    if (c.hasMaps) {
      arguments.push_back({&tickets, true, 0, true});
      launch.maps = maps();
    }
    return runner.run("forward", launch, arguments, seed);
  }

  void runBackward(uint64_t seed) { EXPECT_EQ(backward(seed), ""); }
  /// The first fault, or nothing.
  std::string backward(uint64_t seed) {
    std::vector<Argument> arguments = operands();
    bool together = c.packed || c.spread;
    arguments.insert(arguments.end(), {{&lse},
                                       {&delta},
                                       {&dy},
                                       {&dq, true},
                                       {together ? &dq : &dk, true, offset(1)},
                                       {together ? &dq : &dv, true, offset(2)}});
    for (int part = 0; part < 3; ++part)
      if (c.hasSums)
        sums[part] = DeviceBuffer("sums", 4, size_t(c.tokens / attentionSumRows) * width(part));
    auto addSums = [&] {
      for (DeviceBuffer &each : sums)
        if (c.hasSums)
          arguments.push_back({&each, true});
    };
    if (takesFive()) {
      const AttentionInFive five = attentionInFive(shape, c.row);
      const TemplateLaunch &launch = five.launch;
      DeviceBuffer partial("partial", 4, size_t(five.sums)),
          counts = DeviceBuffer::ofInts("counts", std::vector<int>(size_t(1 + five.counts)));
      arguments.insert(arguments.end(), {{&partial, true}, {&counts, true, 0, true}});
      addSums();
      return runner.run("backward",
                        {launch.threads, launch.iterations, launch.sharedBytes, 1, gradMaps()},
                        arguments, seed);
    }
    DeviceBuffer tickets = DeviceBuffer::ofInts("tickets", {0});
    if (c.hasTickets)
      arguments.push_back({&tickets, true, 0, true});
    addSums();
    const TemplateLaunch chosen =
        c.tiles.gradLaunch ? c.tiles.gradLaunch(shape) : attentionGradLaunch(shape);
    return runner.run("backward",
                      {chosen.threads, chosen.iterations, chosen.sharedBytes, 1, gradMaps()},
                      arguments, seed);
  }

  Numbers read(const DeviceBuffer &buffer, int part) const {
    if (!c.packed && !c.spread)
      return buffer.values();
    Numbers all = dq.values(), result(size_t(c.tokens) * width(part));
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = all[position(i, part)];
    return result;
  }

  DeviceBuffer q, k, v, dy, first, last, y, otherY, lse, delta, dq, dk, dv, sums[3];

private:
  /// The sums of a part's columns against those of what was stored, in doubles: up to 64 numbers of
  /// some tens are added in f32.
  void checkSums(int part) const {
    const DeviceBuffer *gradients[] = {&dq, &dk, &dv};
    const Numbers stored = read(*gradients[part], part);
    Numbers expected(sums[part].values().size());
    const size_t columns = width(part);
    for (size_t i = 0; i < stored.size(); ++i)
      expected[i / columns / attentionSumRows * columns + i % columns] += stored[i];
    EXPECT_LE(largestError(sums[part].values(), expected), 1e-4) << "sums of part " << part;
  }
  DeviceBuffer ofNumbers(const char *name, const Numbers &values) const {
    return c.isBf16 ? DeviceBuffer::ofBf16(name, values) : DeviceBuffer::ofFloats(name, values);
  }
  /// Elements of a token in part `part` of q, k and v.
  size_t width(int part) const {
    return size_t(c.heads) / (part > 0 ? c.sharing : 1) * (part == 2 ? c.ofValues() : c.size);
  }
  /// Where element i of part `part` lies in the common buffer.
  size_t position(size_t i, int part) const {
    if (c.spread)
      return 2 * (part * size_t(c.tokens) * width(0) + i);
    size_t before = part == 0 ? 0 : width(0) + (part - 1) * width(1);
    return i / width(part) * (width(0) + width(1) + width(2)) + before + i % width(part);
  }
  /// Bytes before the part's first element in what its argument points to.
  size_t offset(int part) const {
    return c.packed || c.spread ? (c.isBf16 ? 2 : 4) * position(0, part) : 0;
  }

  std::vector<Argument> operands() {
    if (c.packed || c.spread)
      return {{&q}, {&q, false, offset(1)}, {&q, false, offset(2)}, {&first}, {&last}};
    return {{&q}, {&k}, {&v}, {&first}, {&last}};
  }

  plan::TensorMap mapOf(int part, int boxRows) const {
    const size_t row = c.packed ? width(0) + width(1) + width(2) : width(part);
    return {uint32_t(part),    plan::DType::BF16,
            width(part),       uint64_t(c.tokens),
            2 * row,           64,
            uint32_t(boxRows), 128};
  }
  std::vector<plan::TensorMap> maps() const {
    const AttentionBoxes boxes = c.tiles.boxQueries > 0
                                     ? AttentionBoxes{c.tiles.boxQueries, c.tiles.boxKeys}
                                     : attentionBoxes(shape);
    return {mapOf(0, boxes.queries), mapOf(1, boxes.keys), mapOf(2, boxes.keys)};
  }
  bool takesFive() const { return c.tiles.inChain || c.row > 0; }
  bool gradHasMaps() const {
    return c.hasMaps && (c.hasTickets || attentionGradTakesMaps(shape, takesFive()));
  }
  std::vector<plan::TensorMap> gradMaps() const {
    if (!gradHasMaps())
      return {};
    const int rows = attentionGradBoxRows(shape);
    const uint64_t columns = uint64_t(c.heads) * uint64_t(c.ofValues());
    return {
        mapOf(0, rows),
        mapOf(1, rows),
        mapOf(2, rows),
        {7, plan::DType::BF16, columns, uint64_t(c.tokens), 2 * columns, 64, uint32_t(rows), 128}};
  }

  std::string text() const {
    auto number = [](int64_t i) { return std::to_string(i); };
    std::string element = c.isBf16 ? "nano::bf16" : "float";
    auto stridesOf = [&](int part) {
      const auto own = int64_t(width(part));
      const int size = part == 2 ? c.ofValues() : c.size;
      return c.packed   ? number(int64_t(width(0) + width(1) + width(2))) + ", " + number(size)
             : c.spread ? number(2 * own) + ", " + number(2L * size) + ", 2"
                        : number(own) + ", " + number(size);
    };
    std::string plain = number(int64_t(c.heads) * c.ofValues()) + ", " + number(c.ofValues()),
                statistic = number(c.heads) + ", 1";
    std::string result =
        "#include \"nano_kernels.h\"\n" + library +
        "struct Attention {\n  using Element = " + element +
        ";\n  static constexpr int tokens = " + number(c.tokens) + ", heads = " + number(c.heads) +
        ", keyHeads = " + number(c.heads / c.sharing) + ", headSize = " + number(c.size) +
        ", valueSize = " + number(c.ofValues()) +
        ";\n  static constexpr bool vectorRows = " + (c.spread ? "false" : "true") +
        ", hasScore = " + (c.hasScore ? "true" : "false") +
        ";\n  static constexpr int multiprocessors = " + number(c.multiprocessors) +
        ";\n  static constexpr float scale = 0.12f;\n" + (c.hasScore ? scoreText : "") +
        (c.hasMaps ? "  static constexpr bool hasMaps = true;\n" : "") +
        "  static constexpr int row = " + number(c.ofForward()) +
        ";\n};\nstruct OfGrads : Attention {\n  static constexpr bool hasMaps = " +
        (gradHasMaps() ? "true" : "false") + (c.hasTickets ? ", hasTickets = true;\n" : ";\n") +
        "  static constexpr int row = " + number(c.row) + ";\n" +
        (c.hasSums ? "  static constexpr bool sumsQueries = true, sumsKeys = true, "
                     "sumsValues = true;\n"
                   : "") +
        "};\n";
    auto view = [&](const std::string &member, const std::string &type, int argument,
                    const std::string &strides) {
      return "  x." + member + " = {work.template pointer<" + type + ">(" + number(argument) + ")" +
             (strides.empty() ? "" : ", " + strides) + "};\n";
    };
    std::string operands = view("q", "const " + element, 0, stridesOf(0)) +
                           view("k", "const " + element, 1, stridesOf(1)) +
                           view("v", "const " + element, 2, stridesOf(2)) +
                           view("first", "const int", 3, "") + view("last", "const int", 4, "");
    auto kernel = [&](const std::string &name, int arguments, const std::string &body) {
      const int maps = name == "forward" && c.hasMaps        ? 3
                       : name == "backward" && gradHasMaps() ? 4
                                                             : 0;
      result += "extern \"C\" __global__ void __launch_bounds__(" +
                std::string((name == "forward" && c.hasMaps) || c.row > 0 ? "512" : "384") +
                ", 1) " + name + "(const __grid_constant__ nano::Launch<" + number(arguments) +
                ", 1> launch" +
                (maps > 0 ? ", const __grid_constant__ nano::TensorMaps<" + number(maps) + "> maps"
                          : "") +
                ") {\n  const auto work = launch.find(blockIdx.x, 1);\n" + body + "}\n";
    };
    auto call = [&](const std::string &chosen, const std::string &tiled, const std::string &tiles) {
      return "  nano::" + (tiles.empty() ? chosen + ">" : tiled + ", nano::" + tiles + ">") +
             "(work.begin, x);\n";
    };
    kernel("forward", c.hasMaps ? 9 : 8,
           "  nano::AttentionOperands<Attention, 2> x;\n" + operands +
               view("y[0]", element, 5, plain) + view("y[1]", element, 6, plain) +
               view("lse[0]", "float", 7, statistic) +
               (c.hasMaps ? "  x.tickets = work.template pointer<int32_t>(8);\n"
                            "  x.maps = maps.map;\n"
                          : "") +
               call("attentionForward<Attention", "runs::attentionForward<Attention",
                    c.tiles.forward));
    std::string grads =
        "  nano::AttentionGradOperands<OfGrads> x;\n" + operands +
        view("lse", "const float", 5, statistic) + view("delta", "const float", 6, statistic) +
        view("dy", "const " + element, 7, plain) + view("dq[0]", element, 8, stridesOf(0)) +
        view("dk[0]", element, 9, stridesOf(1)) + view("dv[0]", element, 10, stridesOf(2)) +
        (gradHasMaps() ? "  x.maps = maps.map;\n" : "") +
        (c.hasTickets ? "  x.tickets = work.template pointer<int32_t>(11);\n" : "");
    const int arguments = takesFive() ? 13 : c.hasTickets ? 12 : 11;
    if (c.hasSums)
      for (auto [part, name] : {std::pair(0, "dqSums"), {1, "dkSums"}, {2, "dvSums"}})
        grads +=
            view(name, "float", arguments + part,
                 number(int64_t(width(part))) + ", " + number(part == 2 ? c.ofValues() : c.size));
    kernel("backward", arguments + (c.hasSums ? 3 : 0),
           takesFive() ? grads + "  x.partial = work.template pointer<float>(11);\n"
                                 "  x.counts = work.template pointer<int32_t>(12);\n"
                                 "  nano::attentionBackwardInFive<OfGrads>(x);\n"
                       : grads + call("attentionBackward<OfGrads", "hopper::attentionGrads<OfGrads",
                                      c.tiles.grads));
    return result;
  }

  Case c;
  AttentionShape shape;
  std::string library; ///< text of the templates
  TemplateRunner runner;
};

inline AttentionProblem problemOf(const Case &c, std::mt19937_64 &random) {
  AttentionProblem p;
  p.tokens = c.tokens;
  p.heads = c.heads;
  p.sharing = c.sharing;
  p.size = c.size;
  p.valueSize = c.ofValues();
  if (c.hasScore) {
    p.score = [](double s, int query, int key, int head) {
      return 5 * std::tanh(s / 5) + 0.01 * (head + 1) * (key - query);
    };
    p.slope = [](double s, int, int, int) { return 1 - std::pow(std::tanh(s / 5), 2); };
  }
  fillOperands(p, c.isBf16, random);
  return p;
}

/// Of causal rows of `c.row` tokens, or those of the forward pass.
inline AttentionProblem rowsOf(const Case &c, uint64_t seed) {
  std::mt19937_64 random(seed);
  AttentionProblem p = problemOf(c, random);
  for (int t = 0; t < c.tokens; ++t) {
    p.first.push_back(t / c.ofForward() * c.ofForward());
    p.last.push_back(t);
  }
  return p;
}

/// The kernels of all cases, which are ways to compute one problem, give gradients of the same
/// bits, whatever order the blocks start in and their threads run in.
inline void expectSameGradients(const AttentionProblem &p, const std::vector<Case> &cases,
                                uint64_t seeds = 2) {
  const AttentionResult expected = attentionReference(p);
  std::vector<std::byte> dq, dk, dv, sums[3];
  for (const Case &c : cases) {
    AttentionKernels kernels(c);
    kernels.upload(p);
    kernels.lse = DeviceBuffer::ofFloats("lse", expected.lse);
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      kernels.runBackward(seed);
      if (dq.empty()) {
        dq = kernels.dq.bytes;
        dk = kernels.dk.bytes;
        dv = kernels.dv.bytes;
        for (int part = 0; part < 3; ++part)
          sums[part] = kernels.sums[part].bytes;
      }
      EXPECT_EQ(kernels.dq.bytes, dq);
      EXPECT_EQ(kernels.dk.bytes, dk);
      EXPECT_EQ(kernels.dv.bytes, dv);
      for (int part = 0; part < 3; ++part)
        EXPECT_EQ(kernels.sums[part].bytes, sums[part]);
    }
  }
}

/// The templates with `header` changed: there is `by` in the place of `part`.
inline std::string planted(const std::string &header, const std::string &part,
                           const std::string &by) {
  return replaced(libraryText("nano_attention.h"), "#include \"" + header + "\"\n",
                  replaced(libraryText(header), part, by));
}
/// The first fault of gradients with the templates' text `library`, in some orders of threads.
inline std::string faultOf(const Case &c, const AttentionProblem &p, const std::string &library) {
  AttentionKernels kernels(c, library);
  kernels.upload(p);
  kernels.lse = DeviceBuffer::ofFloats("lse", attentionReference(p).lse);
  std::string found;
  for (uint64_t seed = 1; seed < 4 && found.empty(); ++seed)
    found = kernels.backward(seed);
  return found;
}

} // namespace nano::test
