// nano-fuzz-seeds DIR: writes the seeds that follow the plan format into DIR/plan/, so that no
// change of the format leaves them behind.
#include "runtime/plan/PlanFile.h"
#include "tests/runtime/plan-device/TestPlans.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "nano-fuzz-seeds: pass one folder\n");
    return 2;
  }
  using namespace nano;
  const std::filesystem::path folder = std::filesystem::path(argv[1]) / "plan";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char *name, const std::string &bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  };
  write("full", plan::serialize(test::fullPlan()));
  write("cuda", plan::serialize(test::fullCudaPlan()));
  write("variants", plan::serialize(test::variants()));
}
