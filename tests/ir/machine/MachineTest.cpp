// Seconds of products, kernels and collectives against figures computed by hand, and every error
// that a machine's file can have.
#include "ir/machine/Machine.h"

#include <gtest/gtest.h>

using namespace nano::machine;

namespace {

constexpr double MiB = 1 << 20;

/// A machine with round figures: 100 flops a second on 4 units with tiles of 2 × 2.
Machine roundMachine() {
  Machine machine;
  machine.memory.points = {{1, 10}};
  machine.vectorFlops = 50;
  machine.specialFlops = 25;
  machine.attentionFlops = 20;
  for (Products &products : machine.products)
    products = {/*flops=*/100, /*units=*/4,   /*rows=*/2,
                /*columns=*/2, /*startup=*/0, /*split=*/0};
  machine.node.latency = 1;
  machine.node.members = 4;
  for (Curve &bus : machine.node.bus)
    bus.points = {{1, 10}};
  machine.hasNetwork = true;
  machine.network.latency = 2;
  machine.network.bandwidth.points = {{1, 5}};
  return machine;
}

std::string messageOf(llvm::Expected<Machine> machine) {
  return machine ? "no error" : llvm::toString(machine.takeError());
}

/// cpu.json with `from` replaced by `to`; the text must hold `from`.
std::string changed(const std::string &from, const std::string &to) {
  std::string text = R"({
    "machine": "m", "summary": "a machine", "sources": ["invented"], "ranks_per_node": 2,
    "memory": {"gb_per_s": [[1000, 1], [100000, 2]]},
    "launch": {"host_us": 4},
    "kernels": {"vector_tflops": 1, "attention_tflops": 1},
    "host": {"latency_us": 5, "gb_per_s": 50},
    "products": {
      "f32": {"tflops": 1, "units": 1, "tile_rows": 1, "tile_columns": 1, "startup_k": 0},
      "bf16": {"tflops": 1, "units": 1, "tile_rows": 1, "tile_columns": 1, "startup_k": 0},
      "f8": {"tflops": 1, "units": 1, "tile_rows": 1, "tile_columns": 1, "startup_k": 0}},
    "node": {"latency_us": 10, "measured_ranks": 2, "bus_gb_per_s":
      {"all_reduce": 4, "reduce_scatter": [[100000, 5], [200000, 6]], "all_gather": 4}}})";
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Machine, CurveIsStraightInTheLogarithmOfTheSize) {
  Curve curve{{{10, 100}, {1000, 300}}};
  EXPECT_DOUBLE_EQ(curve.at(1), 100);
  EXPECT_DOUBLE_EQ(curve.at(10), 100);
  EXPECT_DOUBLE_EQ(curve.at(100), 200);
  EXPECT_DOUBLE_EQ(curve.at(1000), 300);
  EXPECT_DOUBLE_EQ(curve.at(1e9), 300);
}

TEST(Machine, ProductsTakeWholeRoundsOfTiles) {
  Machine machine = roundMachine();
  // 4 × 4: four tiles, one round; the flops are 2·4·4·10 = 320 at 100 a second.
  EXPECT_DOUBLE_EQ(machine.product(4, 4, 10, 1, ElementType::F32), 3.2);
  // A fifth tile costs a second round: as long as eight.
  EXPECT_DOUBLE_EQ(machine.product(2, 10, 10, 1, ElementType::F32), 6.4);
  EXPECT_DOUBLE_EQ(machine.product(2, 2, 10, 8, ElementType::F32), 6.4);
  // Starting a tile costs as two steps of k.
  machine.products[1].startup = 2;
  EXPECT_DOUBLE_EQ(machine.product(4, 4, 8, 1, ElementType::BF16), 3.2);
}

TEST(Machine, ProductsOfFewTilesCutTheirSum) {
  Machine machine = roundMachine();
  machine.products[0].split = 10;
  // One tile, k = 40: four parts fill the four units, 2·2·2·40 flops at 100 a second.
  EXPECT_DOUBLE_EQ(machine.product(2, 2, 40, 1, ElementType::F32), 3.2);
  // k = 20 allows two parts.
  EXPECT_DOUBLE_EQ(machine.product(2, 2, 20, 1, ElementType::F32), 3.2);
  // Cutting never makes it slower: four tiles fill the units as they are.
  EXPECT_DOUBLE_EQ(machine.product(4, 4, 20, 1, ElementType::F32), 6.4);
  // A kernel that does not cut has one unit at work.
  EXPECT_DOUBLE_EQ(machine.wholeProduct(2, 2, 40, ElementType::F32), 12.8);
}

TEST(Machine, ProductsAreNotFasterThanMemory) {
  EXPECT_DOUBLE_EQ(roundMachine().product(4, 4, 10, 1, ElementType::F32, 100), 10);
}

TEST(Machine, KernelsTakeTheLongerOfBytesAndFlops) {
  Machine machine = roundMachine();
  EXPECT_DOUBLE_EQ(machine.kernel(40), 4);
  EXPECT_DOUBLE_EQ(machine.kernel(40, 100), 4);
  EXPECT_DOUBLE_EQ(machine.kernel(40, 400), 8);
  EXPECT_DOUBLE_EQ(machine.kernel(40, 100, Arithmetic::Attention), 5);
  EXPECT_DOUBLE_EQ(machine.kernel(40, 50, Arithmetic::Special), 4);
  EXPECT_DOUBLE_EQ(machine.kernel(40, 150, Arithmetic::Special), 6);
  // A product by generated code runs at its share of the library's 100 flops a second.
  EXPECT_DOUBLE_EQ(machine.kernel(40, 850, Arithmetic::Product), 8.5 / generatedProductShare);
  machine.products[size_t(ElementType::F8)].flops = 200;
  EXPECT_DOUBLE_EQ(machine.kernel(40, 1700, Arithmetic::ProductF8), 8.5 / generatedProductShare);
  EXPECT_DOUBLE_EQ(machine.kernel(0), 0);
}

TEST(Machine, CollectivesInANode) {
  Machine machine = roundMachine();
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllReduce, 80, 1), 0);
  // 1 s latency; ring among 4: (4−1)/4 of 80 bytes at 10 a second, all-reduce twice that.
  EXPECT_DOUBLE_EQ(machine.collective(Collective::ReduceScatter, 80, 4), 1 + 6);
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 80, 4), 1 + 6);
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllReduce, 80, 4), 1 + 12);
  // Among two: half of the bytes.
  EXPECT_DOUBLE_EQ(machine.collective(Collective::ReduceScatter, 80, 2), 1 + 4);
}

TEST(Machine, MeasuredBandwidthsAreMetExactly) {
  Machine machine = roundMachine();
  // 40 bytes in 0.75·40/10 = 3 s, 80 bytes in 0.75·80/15 = 4 s, of which 1 s is latency.
  machine.node.bus[size_t(Collective::AllGather)].points = {{40, 10}, {80, 15}};
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 40, 4), 3);
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 80, 4), 4);
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 0, 4), 1);
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 20, 4), 2);
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 60, 4), 3.5);
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 100, 4), 5); // 20 more at 15 a second
  // Between two: what exceeds the latency, times (1/2)/(3/4).
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 60, 2), 1 + 2.5 * 2 / 3);
}

TEST(Machine, CollectivesOverNodes) {
  Machine machine = roundMachine();
  // 8 members in 2 nodes: 4 links of 5 a second are faster than the node's 10; one message more.
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 80, 8, 2), 1 + 2 + 7);
  // One member in each of 8 nodes: 7/8 of 80 bytes at 5 a second, three messages deep.
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 80, 8, 8), 3 * 2 + 14);
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllReduce, 80, 8, 8), 6 * 2 + 28);
  // Two members in each of 4 nodes: a ring of nodes, 2 links of 5.
  EXPECT_DOUBLE_EQ(machine.collective(Collective::ReduceScatter, 80, 8, 4), 1 + 3 * 2 + 7);
  // Twice as long in a node, no longer between nodes.
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllGather, 80, 4, 1, 2), 2 + 2 * 6);
  EXPECT_DOUBLE_EQ(machine.collective(Collective::AllReduce, 80, 8, 8, 2), 6 * 2 + 28);
}

TEST(Machine, CopiesFromTheHost) {
  Machine machine = roundMachine();
  EXPECT_DOUBLE_EQ(machine.hostCopy(1000), 0); // no host link: no time
  machine.host = {/*latency=*/3, /*bandwidth=*/4};
  EXPECT_DOUBLE_EQ(machine.hostCopy(80), 3 + 20);
  EXPECT_DOUBLE_EQ(machine.hostCopy(0), 0);
}

TEST(Machine, RanksBeyondANodeNeedANetwork) {
  Machine machine = roundMachine();
  machine.name = "m";
  machine.ranksPerNode = 4;
  EXPECT_EQ(llvm::toString(machine.checkRanks(5)), "");
  machine.hasNetwork = false;
  EXPECT_EQ(llvm::toString(machine.checkRanks(4)), "");
  EXPECT_EQ(llvm::toString(machine.checkRanks(5)),
            "machine m: 5 ranks do not fit into its one node of 4; take a machine with a network");
}

TEST(Machine, KnownMachinesAreGoodAndNamedAsTheirFiles) {
  std::vector<std::string> names = knownMachines();
  ASSERT_GE(names.size(), 5u);
  for (const std::string &name : names) {
    llvm::Expected<Machine> machine = load(name);
    ASSERT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
    EXPECT_EQ(machine->name, name);
    EXPECT_FALSE(machine->sources.empty());
    EXPECT_EQ(messageOf(load(NANO_MACHINES "/" + name + ".json")), "no error");
  }
}

// The public figures that machines/h100-nvlink.json says it stands for.
TEST(Machine, TheH100MeetsItsPublicFigures) {
  llvm::Expected<Machine> machine = load("h100-nvlink");
  ASSERT_TRUE(bool(machine));
  auto rate = [&](int64_t m, int64_t n, int64_t k, ElementType type = ElementType::BF16) {
    return 2e-12 * double(m) * double(n) * double(k) / machine->product(m, n, k, 1, type);
  };
  EXPECT_NEAR(rate(32768, 3072, 768), 679, 0.1 * 679);
  EXPECT_NEAR(rate(32768, 768, 3072), 773, 0.1 * 773);
  EXPECT_NEAR(rate(768, 3072, 32768), 754, 0.1 * 754);
  EXPECT_NEAR(rate(32768, 2304, 768), 677, 0.1 * 677);
  EXPECT_NEAR(rate(32768, 768, 2304), 754, 0.1 * 754);
  EXPECT_NEAR(rate(2304, 768, 32768), 689, 0.1 * 689);
  EXPECT_NEAR(rate(32768, 768, 768), 642, 0.1 * 642);
  EXPECT_NEAR(rate(32768, 50304, 768, ElementType::F8), 1163, 0.1 * 1163);
  auto bus = [&](Collective kind, double bytes) {
    double factor = kind == Collective::AllReduce ? 1.75 : 0.875;
    return 1e-9 * factor * bytes / machine->collective(kind, bytes, 8);
  };
  EXPECT_NEAR(bus(Collective::AllReduce, 1 * MiB), 40, 1e-6);
  EXPECT_NEAR(bus(Collective::AllReduce, 16 * MiB), 220, 1e-6);
  EXPECT_NEAR(bus(Collective::AllReduce, 64 * MiB), 347, 1e-6);
  EXPECT_NEAR(bus(Collective::AllReduce, 128 * MiB), 402, 1e-6);
  EXPECT_NEAR(1e6 * machine->collective(Collective::ReduceScatter, 77e6, 8), 222, 1);
}

TEST(Machine, SpecialFunctionsAreAnEighthOfOperationsUnlessSaid) {
  auto rate = [](const std::string &keys) {
    llvm::Expected<Machine> machine = parse(changed(R"("vector_tflops": 1)", keys), "m.json");
    EXPECT_TRUE(bool(machine)) << keys;
    return machine ? machine->specialFlops : 0;
  };
  EXPECT_DOUBLE_EQ(rate(R"("vector_tflops": 2)"), 0.25e12);
  EXPECT_DOUBLE_EQ(rate(R"("special_tflops": 0.75, "vector_tflops": 2)"), 0.75e12);
}

TEST(Machine, WorkTakesAsLongAsItsJoulesAtTheLimit) {
  Machine machine = roundMachine();
  machine.energy = {/*limit=*/12,   /*idle=*/2,    /*byte=*/2,
                    /*vector=*/0.5, /*special=*/4, {}};
  machine.energy.product = {1, 0.25, 0.125};
  // 320 operations: 3.2 s by the rate, 320 J at 10 W.
  EXPECT_DOUBLE_EQ(machine.product(4, 4, 10, 1, ElementType::F32), 32);
  EXPECT_DOUBLE_EQ(machine.product(4, 4, 10, 1, ElementType::BF16), 8);
  EXPECT_DOUBLE_EQ(machine.product(4, 4, 10, 2, ElementType::BF16), 16);
  // Bytes and operations both draw: 40·2 and 100·0.5 J.
  EXPECT_DOUBLE_EQ(machine.kernel(40, 100), 13);
  EXPECT_DOUBLE_EQ(machine.kernel(40, 100, Arithmetic::Special), 48);
  EXPECT_DOUBLE_EQ(machine.kernel(40, 1000, Arithmetic::Attention), 50); // by its rate; 33 J/10 W
  EXPECT_DOUBLE_EQ(machine.kernel(40, 8000, Arithmetic::Product), 200);
}

// Joules of large products and copies, measured on one H200, are met within 5%.
TEST(Machine, TheH200MeetsJoulesThatWereMeasured) {
  llvm::Expected<Machine> machine = load("h200-nvlink");
  ASSERT_TRUE(bool(machine));
  auto seconds = [&](int64_t m, int64_t n, int64_t k) {
    return machine->product(m, n, k, 1, ElementType::BF16);
  };
  EXPECT_NEAR(1e6 * seconds(8192, 8192, 8192), 1615, 0.05 * 1615);
  EXPECT_NEAR(1e6 * seconds(49152, 3072, 768), 342, 0.05 * 342);
  EXPECT_NEAR(1e6 * seconds(16384, 6400, 1600), 485, 0.05 * 485);
  EXPECT_NEAR(1e6 * seconds(32768, 1024, 5632), 549, 0.05 * 549);
  EXPECT_NEAR(1e6 * machine->product(8192, 8192, 8192, 1, ElementType::F8), 913, 0.05 * 913);
  // A copy is bound by the memory, at 575 W.
  const double copy = machine->kernel(2147483648.0);
  EXPECT_NEAR((machine->energy.idle * copy + 2147483648.0 * machine->energy.byte) / copy, 575,
              0.1 * 575);
}

// What machines/h200-nvlink.json says it stands for: five special functions of each logit.
TEST(Machine, TheH200MeetsALossThatWasMeasured) {
  llvm::Expected<Machine> machine = load("h200-nvlink");
  ASSERT_TRUE(bool(machine));
  EXPECT_NEAR(1e6 * machine->kernel(0, 5.0 * 8192 * 50304, Arithmetic::Special), 703, 0.02 * 703);
}

TEST(Machine, Errors) {
  auto error = [](const std::string &from, const std::string &to) {
    return messageOf(parse(changed(from, to), "m.json"));
  };
  EXPECT_EQ(error("invented", "invented"), "no error");
  EXPECT_EQ(error(R"("tflops": 1, "units": 1)", R"("tflops": -1, "units": 1)"),
            "m.json: products.f32.tflops: a number above 0 is wanted");
  EXPECT_EQ(error(R"("units": 1)", R"("units": 1.5)"),
            "m.json: products.f32.units: a whole number is wanted");
  EXPECT_EQ(error(R"("startup_k": 0)", R"("startup_k": -3)"),
            "m.json: products.f32.startup_k: a number of 0 or more is wanted");
  EXPECT_EQ(error(R"("startup_k": 0)", R"("startup": 0)"),
            "m.json: products.f32.startup_k: a number of 0 or more is wanted");
  EXPECT_EQ(error(R"("host_us": 4)", R"("host_us": 4, "host_ms": 4)"),
            "m.json: launch.host_ms: unknown key; the known are host_us, graph_node_us, "
            "one_at_a_time");
  EXPECT_EQ(error(R"("host_us": 4)", R"("host_us": 4, "one_at_a_time": 1)"),
            "m.json: launch.one_at_a_time: true or false is wanted");
  EXPECT_EQ(error("[[1000, 1], [100000, 2]]", "[[1000, 1], [100, 2]]"),
            "m.json: memory.gb_per_s: a rate above 0 is wanted, or a list of [bytes, rate] with "
            "ascending bytes");
  EXPECT_EQ(error("[[1000, 1], [100000, 2]]", "[[1000, 1, 2]]"),
            "m.json: memory.gb_per_s: a rate above 0 is wanted, or a list of [bytes, rate] with "
            "ascending bytes");
  EXPECT_EQ(error("[[1000, 1], [100000, 2]]", "0"),
            "m.json: memory.gb_per_s: a rate above 0 is wanted, or a list of [bytes, rate] with "
            "ascending bytes");
  EXPECT_EQ(error(R"("measured_ranks": 2)", R"("measured_ranks": 1)"),
            "m.json: node.measured_ranks: at least 2 are wanted");
  EXPECT_EQ(error("[100000, 5]", "[100000, 50]"),
            "m.json: node.bus_gb_per_s.reduce_scatter: 100000 bytes take 1.0 us, less than the "
            "latency");
  EXPECT_EQ(error("[200000, 6]", "[200000, 60]"),
            "m.json: node.bus_gb_per_s.reduce_scatter: 200000 bytes take 1.7 us, less than the "
            "point before");
  EXPECT_EQ(error(R"(["invented"])", "[]"), "m.json: sources: a list of texts is wanted");
  EXPECT_EQ(error(R"("machine": "m")", R"("machine": 3)"), "m.json: machine: a text is wanted");
  EXPECT_EQ(error(R"({"host_us": 4})", "4"), "m.json: launch: an object is wanted");
  EXPECT_EQ(error(R"("vector_tflops": 1)", R"("beside_collectives": 0.5, "vector_tflops": 1)"),
            "m.json: kernels.beside_collectives: at least 1 is wanted");
  EXPECT_EQ(error(R"("measured_ranks": 2)", R"("beside_kernels": 0.5, "measured_ranks": 2)"),
            "m.json: node.beside_kernels: at least 1 is wanted");
  EXPECT_EQ(error(R"("vector_tflops": 1)", R"("special_tflops": 0, "vector_tflops": 1)"),
            "m.json: kernels.special_tflops: a number above 0 is wanted");
  const std::string energy = R"("energy": {"limit_w": 10, "idle_w": 2, "pj_per_byte": 1, )"
                             R"("pj_per_flop": {"vector": 1, "special": 1, "f32": 1, "bf16": 1)";
  EXPECT_EQ(error(R"("host": {)", energy + R"(, "f8": 1}}, "host": {)"), "no error");
  EXPECT_EQ(error(R"("host": {)", energy + R"(}}, "host": {)"),
            "m.json: energy.pj_per_flop.f8: a number above 0 is wanted");
  EXPECT_EQ(error(R"("host": {)", R"("energy": {"limit_w": 10, "idle_w": 12}, "host": {)"),
            "m.json: energy.idle_w: less than limit_w is wanted");
  EXPECT_EQ(error(R"("host": {"latency_us": 5, "gb_per_s": 50},)", ""),
            "m.json: host: an object is wanted");
  EXPECT_EQ(error(R"("latency_us": 5, "gb_per_s": 50)", R"("latency_us": 5)"),
            "m.json: host.gb_per_s: a number above 0 is wanted");
  EXPECT_EQ(error(R"("gb_per_s": 50)", R"("gb_per_s": [[1, 50]])"),
            "m.json: host.gb_per_s: a number above 0 is wanted");
  EXPECT_EQ(error(R"("latency_us": 5,)", R"("latency_us": -5,)"),
            "m.json: host.latency_us: a number of 0 or more is wanted");
  EXPECT_EQ(error(R"("gb_per_s": 50)", R"("gb_per_s": 50, "gb_per_s_back": 50)"),
            "m.json: host.gb_per_s_back: unknown key; the known are latency_us, gb_per_s");
  // Times of 1e300 s, and 0 of 0, are no predictions.
  for (const char *number : {"5e-324", "1e400", "9e-10", "2e12"}) {
    EXPECT_EQ(error(R"("gb_per_s": 50)", std::string(R"("gb_per_s": )") + number),
              "m.json: host.gb_per_s: a number from 1e-9 to 1e12 is wanted")
        << number;
    EXPECT_EQ(error(R"("latency_us": 5,)", std::string(R"("latency_us": )") + number + ","),
              "m.json: host.latency_us: a number from 1e-9 to 1e12 is wanted")
        << number;
    EXPECT_EQ(error("[[1000, 1], [100000, 2]]", number),
              "m.json: memory.gb_per_s: rates from 1e-9 to 1e12 are wanted, of 1e-9 to 1e18 bytes")
        << number;
  }
  EXPECT_EQ(error("[[1000, 1], [100000, 2]]", "[[1000, 1], [1e19, 2]]"),
            "m.json: memory.gb_per_s: rates from 1e-9 to 1e12 are wanted, of 1e-9 to 1e18 bytes");
  for (const char *part : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 500000; ++i)
      text += part;
    EXPECT_EQ(messageOf(parse(text, "m.json")),
              "m.json: no JSON: it nests more than 256 arrays and objects in each other");
  }
  EXPECT_EQ(messageOf(parse("[]", "m.json")), "m.json: a JSON object is wanted");
  EXPECT_TRUE(llvm::StringRef(messageOf(parse("{", "m.json"))).starts_with("m.json: no JSON: "));
  EXPECT_EQ(messageOf(load("h1000")),
            "machine 'h1000': No such file or directory; name a JSON file or one of cpu, "
            "h100-infiniband, h100-nvlink, h200-infiniband, h200-nvlink");
}

} // namespace
