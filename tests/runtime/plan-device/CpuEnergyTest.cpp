// RAPL's zones as Linux shows them, made of files.
#include "runtime/cpu/Energy.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace nano {
namespace {

class RaplTest : public testing::Test {
protected:
  RaplTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "nano-rapl-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~RaplTest() override { std::filesystem::remove_all(folder); }
  void set(const std::string &zone, const std::string &file, const std::string &text) {
    std::filesystem::create_directory(folder + "/" + zone);
    std::ofstream(folder + "/" + zone + "/" + file) << text << "\n";
  }
  void zone(const std::string &zone, const std::string &name, const std::string &counter) {
    set(zone, "name", name);
    set(zone, "energy_uj", counter);
    set(zone, "max_energy_range_uj", "1000000000");
  }

  std::string folder;
};

TEST_F(RaplTest, PackagesAndTheirMemoryTogether) {
  zone("intel-rapl:0", "package-0", "5000000");
  zone("intel-rapl:0:0", "core", "4000000");
  zone("intel-rapl:0:1", "dram", "7000000");
  zone("intel-rapl:1", "package-1", "999000000");
  zone("intel-rapl:2", "psys", "3000000");
  set("intel-rapl", "enabled", "1");
  const EnergyCounter counter = cpu::raplCounter(folder);
  ASSERT_TRUE(counter.joules) << counter.name;
  EXPECT_EQ(counter.name, "RAPL");
  EXPECT_TRUE(counter.owner.starts_with("machine ")) << counter.owner;
  EXPECT_EQ(counter.joules(), 0.0);
  set("intel-rapl:0", "energy_uj", "6500000");
  set("intel-rapl:0:0", "energy_uj", "5500000");
  set("intel-rapl:0:1", "energy_uj", "7250000");
  set("intel-rapl:2", "energy_uj", "99000000");
  EXPECT_NEAR(counter.joules().value(), 1.75, 1e-9);
  set("intel-rapl:1", "energy_uj", "2000000"); // 3 J later, begun again
  EXPECT_NEAR(counter.joules().value(), 4.75, 1e-9);
  std::filesystem::remove(folder + "/intel-rapl:1/energy_uj");
  EXPECT_FALSE(counter.joules());
}

TEST_F(RaplTest, SaysWhyThereIsNone) {
  EXPECT_EQ(cpu::raplCounter(folder).name, folder + " has no counter of a processor");
  EXPECT_EQ(cpu::raplCounter(folder + "/gone").name,
            folder + "/gone has no counter of a processor");
  zone("intel-rapl:0", "package-0", "many");
  EXPECT_EQ(cpu::raplCounter(folder).name, folder + "/intel-rapl:0/energy_uj: is no number");
  std::filesystem::remove(folder + "/intel-rapl:0/energy_uj");
  const EnergyCounter none = cpu::raplCounter(folder);
  EXPECT_EQ(none.name, folder + "/intel-rapl:0/energy_uj: No such file or directory");
  EXPECT_FALSE(none.joules);
}

TEST_F(RaplTest, ForRootAlone) {
  if (::geteuid() == 0)
    GTEST_SKIP() << "root reads everything";
  zone("intel-rapl:0", "package-0", "1");
  std::filesystem::permissions(folder + "/intel-rapl:0/energy_uj", std::filesystem::perms::none);
  EXPECT_EQ(cpu::raplCounter(folder).name, folder + "/intel-rapl:0/energy_uj: Permission denied");
}

} // namespace
} // namespace nano
